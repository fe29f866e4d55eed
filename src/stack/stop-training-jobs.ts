import { listProcesses, type RunningProcess, stopProcess } from '../platform/processes.ts'

/** A training job commits at its next optimizer step after TERM, a few seconds on the demo's model. */
const GRACE_MS = 20_000

/** The training jobs of a stack, recognised by the spec file on their command line, which lies below its artifacts. */
export function listTrainingJobs({ artifactsDir }: { artifactsDir: string }): RunningProcess[] {
  return listProcesses().filter(
    ({ command }) => / longhaul_trainer step /.test(command) && command.includes(`${artifactsDir}/`),
  )
}

/** Training jobs run in sessions of their own, so that a killed worker does not take them along; a stopped stack must.
 *  @returns how many were stopped */
export async function stopTrainingJobs({ artifactsDir }: { artifactsDir: string }): Promise<number> {
  const jobs = listTrainingJobs({ artifactsDir })
  await Promise.all(jobs.map((identity) => stopProcess({ identity, graceMs: GRACE_MS })))
  return jobs.length
}
