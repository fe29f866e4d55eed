/**
 * When a rollout tells its root how far it is. A report costs up to four events of the root's history, and the page that people open should
 * stay below 2,000: the first minutes have one every 15 s, and later ones come as far apart as a thirtieth of the run's age. That is 230
 * of them in four days and 300 in five weeks.
 */
const EVERY_MS = 15_000
const REPORTS_IN_AN_AGE = 30

/** @param toldAt when the last one was sent, 0 for none; all times in ms since 1970 */
export function isReportDue({ now, toldAt, since }: { now: number; toldAt: number; since: number }): boolean {
  return now - toldAt >= Math.max(EVERY_MS, (now - since) / REPORTS_IN_AN_AGE)
}
