/** Compiled examples of the programmatic interface: a wrong example is a type error. Not part of the package's exports. */
import { connect, createSchedule, findBlockers, pauseRun, resumeRun, startEvaluation, startTraining } from './index.ts'

/** Train, follow, decide. */
export async function trainAndReport(): Promise<void> {
  // #region train
  const run = await startTraining({ recipe: 'demo', overrides: { seed: 2 } })
  for await (const event of run.watch()) {
    if (event.kind === 'progress') console.error(event.progress?.phase ?? 'waiting for a worker')
    if (event.kind === 'closed' && event.outcome.status === 'completed') console.log(event.outcome.result.stages)
  }
  await run.close()
  // #endregion
}

/** A CI job: the same request joins a run under way, a failure has a code. */
export async function evaluateInCi(): Promise<number> {
  // #region evaluate
  const evaluation = await startEvaluation({ recipe: 'nightly', policy: 'promoted' })
  const outcome = await evaluation.outcome()
  await evaluation.close()
  if (outcome.status === 'completed') return outcome.result.passAt1 >= 0.5 ? 0 : 3
  console.error(outcome.status === 'failed' ? `${outcome.code}: ${outcome.message}` : outcome.status)
  return 2
  // #endregion
}

export async function holdForMaintenance(): Promise<void> {
  // #region control
  const connection = await connect({ address: 'temporal.example:7233', namespace: 'training' })
  const run = { connection, workflowId: 'train/demo-2026-11-20-a' }
  const { progress } = await pauseRun({ ...run, mode: 'hard' })
  console.log(`paused while ${progress?.phase ?? 'no worker answers'}`)
  await resumeRun(run)
  await connection.close()
  // #endregion
}

/** An alarm that names what to repair. */
export async function nameWhatBlocks(): Promise<string[]> {
  // #region blockers
  const connection = await connect()
  const { blockers } = await findBlockers({ connection, workflowId: 'train/demo-2026-11-20-a', longerThanMs: 60_000 })
  await connection.close()
  return blockers.map(
    ({ on, since, error, toDo }) => `${on.kind} ${on.name} since ${since} ${error?.code ?? ''}: ${toDo}`,
  )
  // #endregion
}

export async function everyNight(): Promise<void> {
  // #region schedule
  const connection = await connect()
  const change = await createSchedule({ connection, id: 'nightly', recipe: 'nightly', timezone: 'Europe/Berlin' })
  console.log(change.kind, change.diff, change.nextRuns[0])
  await connection.close()
  // #endregion
}
