import type { TrackedRun } from '../../contracts/trackers.types.ts'

export interface SendOptions {
  /** Reports what is missing and writes nothing. */
  isDry: boolean
  signal: AbortSignal
  /** Called as points arrive, even if sending fails later. */
  onSent(points: number): void
  /** For trackers that assign ids themselves. Returns the id that all senders of this run use, which is the given one only if it was
   *  the first. */
  settleId(id: string): Promise<string>
}

/** Receives the points of a run that it lacks. Sending a run again costs nothing and creates no duplicates. */
export interface Tracker {
  /** Name for messages, without secrets. */
  name: string
  /** @throws LonghaulError `Tracker.*`, `Config.Invalid` */
  send(run: TrackedRun, options: SendOptions): Promise<void>
}
