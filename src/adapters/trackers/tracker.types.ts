import type { TrackedRun } from '../../contracts/trackers.types.ts'

export interface SendOptions {
  /** Says what is missing and writes nothing. */
  isDry: boolean
  signal: AbortSignal
  /** Called as points arrive, also by a sending that fails later. */
  onSent(points: number): void
  /** For trackers that give ids themselves: the id that all senders of this run use there, ours only if it is the first. */
  settleId(id: string): Promise<string>
}

/** Takes what it lacks of a run: a run that was sent before is sent again at no cost and without a second value. */
export interface Tracker {
  /** For people; holds no secret. */
  name: string
  /** @throws LonghaulError `Tracker.*`, `Config.Invalid` */
  send(run: TrackedRun, options: SendOptions): Promise<void>
}
