/** Runs of recipes through the client, each with a limit and progress lines. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { LonghaulConnection } from '../../src/client/index.ts'
import { queryProgress, type RunHandle, type RunOutcome, startTraining } from '../../src/client/index.ts'
import type { TrainAgentInput, TrainAgentResult } from '../../src/contracts/workflows.types.ts'
import { HANG_MS } from './hang.ts'

export interface RunRecipeInput {
  connection: LonghaulConnection
  input: TrainAgentInput
  limitMs: number
  /** Ends the run before its limit. */
  signal?: AbortSignal
  /** One line for each phase that the run enters. */
  say: (line: string) => void
  /** Called once with the handle, before any wait. */
  onStart?: (handle: RunHandle<TrainAgentResult>) => void
}

/** Starts a new run and waits for its end. A run that exceeds its limit, or for which the wait fails, is ended first. */
export async function runRecipe({ connection, input, limitMs, signal, say, onStart }: RunRecipeInput): Promise<{
  workflowId: string
  outcome: RunOutcome<TrainAgentResult>
}> {
  const handle = await startTraining({ connection, ...input, fresh: input.run === undefined })
  onStart?.(handle)
  const outcome = await outcomeOf({ connection, handle, limitMs, ...(signal === undefined ? {} : { signal }), say })
  return { workflowId: handle.workflowId, outcome }
}

export interface OutcomeInput<T> {
  connection: LonghaulConnection
  handle: RunHandle<T>
  limitMs: number
  signal?: AbortSignal
  say: (line: string) => void
}

/** @throws Error that names the run's phase when the limit was reached */
export async function outcomeOf<T>({
  connection,
  handle,
  limitMs,
  signal,
  say,
}: OutcomeInput<T>): Promise<RunOutcome<T>> {
  const limit = AbortSignal.any([AbortSignal.timeout(limitMs), ...(signal === undefined ? [] : [signal])])
  const startedAt = Date.now()
  let phase = 'starting'
  try {
    // As often as a user's screen polls and not more: each poll makes many calls and queries, which the server and workers answer
    // instead of playing.
    for await (const event of handle.watch({ signal: limit })) {
      if (event.kind === 'closed') return event.outcome
      const now = event.kind === 'progress' ? (event.progress?.phase ?? 'no worker answers') : 'server unreachable'
      if (now !== phase) say(`${seconds(startedAt)} ${handle.workflowId}: ${now}`)
      phase = now
    }
  } catch (error) {
    await endRun({ connection, workflowId: handle.workflowId })
    throw error
  }
  await endRun({ connection, workflowId: handle.workflowId })
  throw new Error(`Expected ${handle.workflowId} to end within ${limitMs / 1000} s, it was ${phase}`)
}

/** The run's name, under which its artifacts are stored, once it has one. */
export async function runNameOf(input: { connection: LonghaulConnection; workflowId: string }): Promise<string> {
  for (const deadline = Date.now() + HANG_MS; Date.now() < deadline; await sleep(200)) {
    const run = (await queryProgress(input))?.run ?? null
    if (run !== null) return run
  }
  throw new Error(`Expected ${input.workflowId} to have a name`)
}

/**
 * Waits until the run reports a phase.
 *
 * @throws Error if the run ends before, because a run never returns to a phase
 */
export async function waitForPhase(input: {
  connection: LonghaulConnection
  workflowId: string
  phase: RegExp
  limitMs: number
}): Promise<string> {
  const { connection, workflowId, phase, limitMs } = input
  let last = 'nothing'
  for (const deadline = Date.now() + limitMs; Date.now() < deadline; ) {
    const progress = await queryProgress({ connection, workflowId })
    last = progress?.phase ?? 'no answer'
    if (phase.test(last)) return last
    const { status } = await connection.client.workflow.getHandle(workflowId).describe()
    if (status.name !== 'RUNNING') throw new Error(`Expected ${workflowId} to reach ${phase}, it is ${status.name}`)
    await sleep(500)
  }
  throw new Error(`Expected ${workflowId} to reach ${phase} within ${limitMs / 1000} s, it said ${last}`)
}

/** Cancels the run, then terminates it if it does not end; does nothing if the run is over. */
export async function endRun({
  connection,
  workflowId,
}: {
  connection: LonghaulConnection
  workflowId: string
}): Promise<void> {
  const handle = connection.client.workflow.getHandle(workflowId)
  const isOver = async (): Promise<boolean> => (await handle.describe().catch(() => null))?.status.name !== 'RUNNING'
  if (await isOver()) return
  await handle.cancel().catch(() => undefined)
  for (const deadline = Date.now() + 90_000; Date.now() < deadline; ) {
    if (await isOver()) return
    await sleep(500)
  }
  await handle.terminate('the test that started it is over').catch(() => undefined)
}

function seconds(since: number): string {
  return `${((Date.now() - since) / 1000).toFixed(0).padStart(4)} s`
}
