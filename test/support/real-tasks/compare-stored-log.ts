/** A log of a graded patch, read again by the official harnesses' own code and by Longhaul's. */
import { LOG_PROFILES } from '../../../src/grading/log-profiles.ts'
import type { Task } from '../../../src/contracts/tasks.types.ts'
import { compareCase } from '../grading-oracle/compare.ts'
import { type Oracle, startOracle } from '../grading-oracle/oracle.ts'

const HARNESSES = ['swebench-4.1', 'swebench-5'] as const
type HarnessName = (typeof HARNESSES)[number]

/** Each harness's verdict on the log; null if it ends with an error. */
export type OracleVerdicts = Record<HarnessName, boolean | null>

export interface Oracles {
  of: Record<HarnessName, Oracle>
  stop(): Promise<void>
}

export async function startOracles(): Promise<Oracles> {
  const [four, five] = await Promise.all(HARNESSES.map((name) => startOracle(name)))
  if (four === undefined || five === undefined) throw new Error('Expected two oracles')
  return {
    of: { 'swebench-4.1': four, 'swebench-5': five },
    async stop() {
      await Promise.all([four.stop(), five.stop()])
    },
  }
}

let asked = 0

export async function compareStoredLog(
  { of }: Oracles,
  task: Task,
  log: Uint8Array,
): Promise<{ verdicts: OracleVerdicts; differences: string[] }> {
  const verdicts: OracleVerdicts = { 'swebench-4.1': null, 'swebench-5': null }
  const differences: string[] = []
  for (const harness of HARNESSES) {
    const parser = parserOf(harness, task)
    if (parser === null) {
      differences.push(`${harness} has no parser for ${task.repo}`)
      continue
    }
    asked += 1
    const { failToPass, passToPass } = task
    const one = { id: asked, parser, log, tests: { failToPass, passToPass }, evalType: 'pass_and_fail' as const }
    const [answer] = await of[harness].ask([one])
    if (answer === undefined) throw new Error(`Expected an answer of ${harness}`)
    verdicts[harness] = answer.resolved ?? null
    const { difference } = compareCase(harness, one, answer)
    if (difference !== null) differences.push(`${harness}: ${JSON.stringify(difference).slice(0, 300)}`)
  }
  return { verdicts, differences }
}

/** Version 4 selects by repository, version 5 by the function's name for the same repository. */
function parserOf(harness: HarnessName, { repo, installConfig }: Task): string | null {
  const { parsers } = LOG_PROFILES[harness]
  if (harness === 'swebench-4.1') return parsers.has(repo) ? repo : installConfig.logParser
  const [, name = ''] = repo.split('/')
  return (
    [installConfig.logParser, `parse_log_${name.replaceAll('-', '_')}`, `parse_log_${name.split('-')[0] ?? ''}`].find(
      (one) => parsers.has(one),
    ) ?? null
  )
}
