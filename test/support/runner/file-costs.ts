/** The cost of each job of `npm test`. `npm test -- --costs` measures the values in `file-costs.json` again. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FileResult } from './file-result.ts'
import type { JobCost } from './play-jobs.ts'

/** Name of the job that runs all tests of the trainer. */
export const TRAINER_JOB = 'trainer'

/** Means of a measured run, for newer files. A system test uses containers, servers or trainers. */
const UNIT: JobCost = { seconds: 3, cpuSeconds: 2 }
const SYSTEM: JobCost = { seconds: 25, cpuSeconds: 10 }

/** By job, `[seconds, seconds of CPU]`: one line for each, so that a new measurement is readable as a diff. */
type KeptCosts = Record<string, [number, number]>

const costsFile = (root: string): string => join(root, 'test/support/runner/file-costs.json')

/** @returns the cost of a job by its name: the file's path, or `TRAINER_JOB` */
export async function readCosts(root: string): Promise<(name: string) => JobCost> {
  const kept = await readKeptCosts(root)
  return (name) => {
    const known = kept[name]
    if (known === undefined) return name.startsWith('test/') ? SYSTEM : UNIT
    return { seconds: known[0], cpuSeconds: known[1] }
  }
}

export async function readKeptCosts(root: string): Promise<KeptCosts> {
  return JSON.parse(await readFile(costsFile(root), 'utf8')) as KeptCosts
}

/**
 * Stores the measurements of a whole run. The trainer's tests are stored as one job, `trainerSeconds`, on one CPU. If the system does
 * not report CPU time, a file counts as computing all the time. What a file's processes start detached (audits, clusters, engines) is not counted: such rows
 * hold what a control group counted on 2026-11-30.
 */
export async function keepCosts(
  root: string,
  { results, trainerSeconds }: { results: readonly FileResult[]; trainerSeconds: number },
): Promise<void> {
  const measured: FileResult[] = results.filter(({ file }) => file.endsWith('.test.ts'))
  const lines = [
    ...measured.map(({ file, seconds, cpuSeconds = seconds }) => [file, seconds, cpuSeconds] as const),
    [TRAINER_JOB, trainerSeconds, trainerSeconds] as const,
  ]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, ...cost]) => `  ${JSON.stringify(name)}: [${cost.map((seconds) => seconds.toFixed(1)).join(', ')}]`)
  await writeFile(costsFile(root), `{\n${lines.join(',\n')}\n}\n`)
}
