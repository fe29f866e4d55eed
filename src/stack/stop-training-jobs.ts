import { listProcesses, stopProcess } from './processes.ts'

/** A training job commits at its next optimizer step after TERM, a few seconds on the demo's model. */
const GRACE_MS = 20_000

/** Training jobs run in sessions of their own, so that a killed worker does not take them along; a stopped stack must. They
 *  are recognised by the spec file on their command line, which lies below this stack's artifacts.
 *  @returns how many were stopped */
export async function stopTrainingJobs({ artifactsDir }: { artifactsDir: string }): Promise<number> {
  const jobs = listProcesses().filter(
    ({ command }) => / longhaul_trainer step /.test(command) && command.includes(`${artifactsDir}/`),
  )
  await Promise.all(jobs.map((identity) => stopProcess({ identity, graceMs: GRACE_MS })))
  return jobs.length
}
