import { setTimeout as sleep } from 'node:timers/promises'
import type { ActivitySlotInfo, CustomSlotSupplier, SlotPermit, TunerHolder } from '@temporalio/worker'
import type { HostDoor } from '../activities/runtime/host-door.ts'
import { unlessAborted } from '../platform/unless-aborted.ts'

interface WorkSlotsOptions {
  /** Maximum number of concurrent activities. */
  slots: number
  /** While it is closed, the worker does not poll. */
  door: Pick<HostDoor, 'whenOpen' | 'isOpen'>
  /** While it returns true, the worker does not poll, because a task would only wait here. @default never */
  isFull?: () => boolean
  /** Delay before the next poll. @default 0 */
  pauseMs?: (underWay: number) => number
}

/**
 * Slots of a host for work from a queue that all hosts share. The SDK reserves a slot before it polls, so a host without slots takes no
 * new work while its running work continues, and the worker need not be stopped.
 */
export function createWorkSlots({
  slots,
  door,
  isFull = () => false,
  pauseMs = () => 0,
}: WorkSlotsOptions): CustomSlotSupplier<ActivitySlotInfo> {
  let reserved = 0
  let underWay = 0
  let freed = Promise.withResolvers<void>()
  return {
    type: 'custom',
    async reserveSlot(_context, signal): Promise<SlotPermit> {
      try {
        for (;;) {
          await door.whenOpen(signal)
          await sleep(pauseMs(underWay), undefined, { signal })
          if (reserved >= slots) await unlessAborted(freed.promise, signal)
          else if (isFull()) await sleep(LOOK_AGAIN_MS, undefined, { signal })
          else if (door.isOpen) break
        }
      } catch (error) {
        // The SDK treats any error other than the signal's own as a fault.
        signal.throwIfAborted()
        throw error
      }
      reserved += 1
      return {}
    },
    // Eager execution is for activities of the same worker's workflow tasks, and this worker runs none.
    tryReserveSlot: () => null,
    markSlotUsed() {
      underWay += 1
    },
    releaseSlot({ slotInfo }) {
      reserved -= 1
      if (slotInfo !== undefined) underWay -= 1
      freed.resolve()
      freed = Promise.withResolvers<void>()
    },
  }
}

/** A tuner must cover every kind of task, although these workers run only activities. */
export function activitiesOnly(activityTaskSlotSupplier: CustomSlotSupplier<ActivitySlotInfo>): TunerHolder {
  const one = { type: 'fixed-size', numSlots: 1 } as const
  return {
    activityTaskSlotSupplier,
    workflowTaskSlotSupplier: { type: 'fixed-size', numSlots: 2 },
    localActivityTaskSlotSupplier: one,
    nexusTaskSlotSupplier: one,
  }
}

/** Interval between checks whether a full host has room again. */
const LOOK_AGAIN_MS = 100

const OPENING_PAUSE_MS = 25
const FULL_PAUSE_MS = 200

/**
 * The server hands a placement to any polling host, and always to the same one of several idle hosts. Each host therefore pauses
 * before it polls for the next sandbox, the longer the more it holds and opens. The emptier of two hosts polls first.
 */
export function placementPauseMs(share: number, opening: number): number {
  return Math.round(FULL_PAUSE_MS * Math.min(1, share) + OPENING_PAUSE_MS * opening)
}
