import type { HostDrain } from '../../contracts/hosts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { unlessAborted } from '../../platform/unless-aborted.ts'

/** Whether this host accepts work, as its worker knows it. It is open unless the host is drained or the worker stops. */
export interface HostDoor {
  readonly isOpen: boolean
  /** Whether open episodes should move to another host. */
  readonly isMoving: boolean
  readonly isStopping: boolean
  /** Aborted once the worker stops. */
  readonly stopping: AbortSignal
  /** Aborted with `Host.Closed` as soon as the door closes; already aborted if it is closed. */
  closing(): AbortSignal
  /** @throws LonghaulError `Host.Closed` */
  requireOpen(): void
  /** Rejects with the signal's reason. */
  whenOpen(signal: AbortSignal): Promise<void>
  /** Applies the drain state of the host. @returns whether it changed anything */
  obey(drain: HostDrain | null): boolean
  /** Closes permanently, because the worker stops. */
  stop(): void
}

export function createHostDoor(hostId: string): HostDoor {
  const stopping = new AbortController()
  let drain: HostDrain | null = null
  let closing = new AbortController()
  let opened = Promise.withResolvers<void>()
  opened.resolve()

  const isOpen = (): boolean => drain === null && !stopping.signal.aborted
  const close = (why: string): void => {
    if (closing.signal.aborted) return
    opened = Promise.withResolvers<void>()
    closing.abort(
      new LonghaulError({
        code: 'Host.Closed',
        message: `The host ${hostId} takes no work: ${why}. Any other host may take it`,
        details: { host: hostId },
      }),
    )
  }

  return {
    get isOpen() {
      return isOpen()
    },
    get isMoving() {
      return drain?.moving === true
    },
    get isStopping() {
      return stopping.signal.aborted
    },
    stopping: stopping.signal,
    closing: () => closing.signal,
    requireOpen: () => closing.signal.throwIfAborted(),
    async whenOpen(signal) {
      while (!isOpen()) {
        signal.throwIfAborted()
        await unlessAborted(opened.promise, signal)
      }
    },
    obey(next) {
      const isNew = drain?.since !== next?.since || drain?.moving !== next?.moving
      drain = next
      if (drain !== null) close(`it has been drained since ${drain.since}`)
      else if (isOpen() && closing.signal.aborted) {
        closing = new AbortController()
        opened.resolve()
      }
      return isNew
    },
    stop() {
      stopping.abort()
      close('its worker stops')
    },
  }
}
