import { setTimeout as sleep } from 'node:timers/promises'
import type { RunningStack } from '../start-stack.ts'
import type { ProxyEvent, RecordingProxy } from '../recording-proxy.ts'
import type { WorkerKill } from './kill-plan.ts'

export interface WorkerKilled {
  stage: string
  atMs: number
  /** Samples in progress. */
  sampling: number
  /** Time until the restarted worker polled again. */
  backMs: number
}

/** Waits for the moment and kills the sandbox worker's process group. Rejects with the signal's reason if the moment never comes. */
export async function killWorkerAt(input: {
  kill: WorkerKill
  stack: RunningStack
  proxy: RecordingProxy
  signal: AbortSignal
}): Promise<WorkerKilled> {
  const { kill, stack, proxy, signal } = input
  await momentOf(kill, proxy, signal)
  await sleep(kill.delayMs, undefined, { signal })
  const atMs = Date.now()
  const sampling = proxy.exchanges.filter(({ endedMs }) => endedMs === null).length
  await stack.kill('worker-sandbox')
  return { stage: kill.stage, atMs, sampling, backMs: Date.now() - atMs }
}

function momentOf({ stage, on, count }: WorkerKill, proxy: RecordingProxy, signal: AbortSignal): Promise<void> {
  let seen = 0
  return new Promise((resolve, reject) => {
    const stop = proxy.listen(({ kind, exchange }: ProxyEvent) => {
      // An episode's id is <run>/<stage>/<iteration>/<task>/<index>.
      if (kind !== on || exchange.session.split('/')[1] !== stage || ++seen < count) return
      stop()
      resolve()
    })
    signal.addEventListener(
      'abort',
      () => {
        stop()
        reject(signal.reason as Error)
      },
      { once: true },
    )
  })
}
