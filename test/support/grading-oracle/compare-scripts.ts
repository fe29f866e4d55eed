/** Compares the evaluation scripts of official harnesses and of Longhaul for the same rows, as text. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { normalizeRow } from '../../../src/adapters/datasets/normalize-row.ts'
import { RUN_PROFILES } from '../../../src/grading/profiles/run-profiles.ts'
import type { MarkedHarness } from './compare-containers.ts'
import { harnessPython, locateHarness } from './oracle.ts'

export type ScriptRow = Record<string, unknown>

/** @returns the differences, and the number of rows for which upstream made a script */
export async function compareScripts(
  harness: MarkedHarness,
  rows: readonly ScriptRow[],
): Promise<{ differences: string[]; scripts: number }> {
  const answers = await askScripts(harness, rows)
  const differences = rows.flatMap((row, index) => {
    const theirs = answers[index]?.script ?? null
    const ours = ourScript(harness, row)
    return theirs === ours
      ? []
      : [`${String(row['instance_id'])}:\n${theirs ?? answers[index]?.error}\nis not\n${ours}`]
  })
  return { differences, scripts: answers.filter(({ script }) => script !== undefined).length }
}

/** Null if the row is refused. */
function ourScript(harness: MarkedHarness, row: ScriptRow): string | null {
  try {
    const task = normalizeRow(row)
    return RUN_PROFILES[harness].plan(task, { hasPatch: true, assets: task.harness?.assets ?? [] }).evalScript
  } catch {
    return null
  }
}

async function askScripts(
  harness: MarkedHarness,
  rows: readonly ScriptRow[],
): Promise<{ script?: string; error?: string }[]> {
  const { folder } = await locateHarness(harness)
  const child = spawn(await harnessPython(), [join(import.meta.dirname, 'scripts.py'), harness, folder], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, PYTHONUTF8: '1', PYTHONDONTWRITEBYTECODE: '1' },
  })
  child.stdin.end(JSON.stringify(rows))
  return JSON.parse(await text(child.stdout)) as { script?: string; error?: string }[]
}
