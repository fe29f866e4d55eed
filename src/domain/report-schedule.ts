/**
 * Decides when a rollout reports its progress to its root. A report adds up to four events to the root's history, which should stay
 * below 2,000 because users open it. In the first minutes there is a report every 15 s; later the interval is a thirtieth of the run's
 * age. That gives 230 reports in four days and 300 in five weeks.
 */
const EVERY_MS = 15_000
const REPORTS_IN_AN_AGE = 30

/** @param toldAt when the last report was sent, 0 for none; all times in ms since 1970 */
export function isReportDue({ now, toldAt, since }: { now: number; toldAt: number; since: number }): boolean {
  return now - toldAt >= Math.max(EVERY_MS, (now - since) / REPORTS_IN_AN_AGE)
}
