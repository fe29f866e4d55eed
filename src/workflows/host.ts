import {
  CancellationScope,
  condition,
  defineSignal,
  isCancellation,
  log,
  makeContinueAsNewFunc,
  setCurrentDetails,
  setHandler,
  sleep,
  upsertMemo,
  workflowInfo,
} from '@temporalio/workflow'
import type { DrainRequest, HostDrain, HostHolder, HostInput, HostState } from '../contracts/hosts.types.ts'
import { isSameHolder } from '../contracts/host-holder.ts'
import { attendance } from './activity-proxies.ts'
import { failureCode } from './failures.ts'
import { receiveSignal } from './receive-signal.ts'

/** Sent by a worker of the host when it starts. */
export const arrivedSignal = defineSignal<[HostHolder], 'arrived'>('arrived')
export const drainSignal = defineSignal<[Partial<DrainRequest> | null | undefined], 'drain'>('drain')
export const uncordonSignal = defineSignal('uncordon')

/**
 * Represents a sandbox host while it is known: whether it is drained, and what its worker reports. Workers start it and read its state
 * from the memo, which needs no control worker. Runs one activity at a time, on the host's own queue; no children. Ends after ten
 * minutes without a worker of the host; a drained host waits thirty days for its worker. Continues as new when its history is long. On
 * cancel it ends, and the worker's next check starts it anew, not drained.
 */
export async function host(input: HostInput): Promise<{ host: string }> {
  const state: HostState = { holder: input.holder, drain: input.drain }
  let arrivals = 0
  let attending = new CancellationScope()
  let isReplaced = false
  const publish = (): void => {
    upsertMemo({ host: state })
    setCurrentDetails(describe(input.host, state))
  }
  receiveSignal(arrivedSignal, (holder) => {
    arrivals += 1
    if (isSameHolder(holder, state.holder)) return
    state.holder = holder
    publish()
    isReplaced = true
    attending.cancel()
  })
  receiveSignal(drainSignal, (request) => {
    const graceMs = request?.graceMs ?? null
    const since = state.drain?.since ?? new Date().toISOString()
    const moveAt = graceMs === null ? null : new Date(Date.now() + graceMs).toISOString()
    state.drain = { since, moving: graceMs === 0, moveAt, graceMs }
    publish()
    void moveWhenDue(state.drain)
  })
  setHandler(uncordonSignal, () => {
    state.drain = null
    publish()
  })
  const moveWhenDue = async (order: HostDrain): Promise<void> => {
    if (order.moveAt === null || order.moving) return
    try {
      await sleep(Math.max(1, Date.parse(order.moveAt) - Date.now()))
    } catch {
      // This workflow is cancelled. Nobody awaits this function, and a rejection of it would fail the last workflow task forever.
      return
    }
    // A later order has replaced this one.
    if (state.drain !== order) return
    state.drain = { ...order, moving: true }
    publish()
  }
  publish()
  if (state.drain !== null) void moveWhenDue(state.drain)

  for (;;) {
    const { holder } = state
    const before = arrivals
    isReplaced = false
    attending = new CancellationScope()
    const isPresent = await attending
      .run(() => attend(input.host, holder))
      .catch((error: unknown) => {
        // Comparing the current holder is not enough: after two signals in one workflow task it may be the first machine again.
        if (!isCancellation(error) || !isReplaced) throw error
        return true
      })
    if (!isPresent && arrivals === before) {
      if (state.drain === null) return { host: input.host }
      await condition(() => arrivals > before || state.drain === null, '30 days')
      if (arrivals === before) return { host: input.host }
    }
    if (workflowInfo().continueAsNewSuggested) {
      // Set in the memo from the start, because a worker that reads it must not take a drained host for an open one.
      await makeContinueAsNewFunc<typeof host>({ memo: { host: state } })({ host: input.host, ...state })
    }
  }
}

/** @returns false if no worker of the host arrived within the permitted absence */
async function attend(name: string, holder: HostHolder): Promise<boolean> {
  try {
    await attendance(holder.queue).attendHost.executeWithOptions({ summary: `${name} is present` }, [{ host: name }])
    return true
  } catch (error) {
    if (isCancellation(error)) throw error
    const code = failureCode(error)
    log.info('a sandbox host is not present', { host: name, code })
    return false
  }
}

function describe(name: string, { holder, drain }: HostState): string {
  const work = drain === null ? 'takes work' : drain.moving ? 'drained, open episodes move' : 'drained'
  const since = drain === null ? '' : ` since ${drain.since}`
  return `**${name}** · ${work}${since} · queue ${holder.queue}`
}
