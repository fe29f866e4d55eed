import { decodeLog, sliceLog } from './log-slice.ts'

/** `==== 3 passed, 1 failed in 0.12s ====`: the last line of every session that ends by itself and is not fully quiet. */
const SUMMARY =
  /^=+ (.*\b(?:passed|failed|errors?|skipped|xfailed|xpassed|deselected|no tests ran)\b.*) in [\d.]+s.* =+$/gm
const SESSION = /^=+ test session starts =+$/gm

/**
 * Whether a pytest log contradicts itself, as it does when something beside the tests writes into it or ends the session:
 * another number of ends than of starts while results were reported, or more passed tests than the sessions counted.
 * A session that prints no header is too quiet to tell, and says nothing.
 */
export function isInconsistentLog(log: Uint8Array): boolean {
  const decoded = decodeLog(log, 'strict')
  const slice = decoded === null ? null : sliceLog(decoded)
  if (slice === null) return false
  const text = slice.replaceAll(ESCAPES, '')
  const reported = new Set(text.split('\n').filter((line) => /^PASSED \S/.test(line)))
  const sessions = text.match(SESSION)?.length ?? 0
  if (sessions === 0 || reported.size === 0) return false
  const ends = [...text.matchAll(SUMMARY)].map(([, counts]) => Number(/(\d+) passed/.exec(counts ?? '')?.[1] ?? 0))
  const counted = ends.reduce((sum, passed) => sum + passed, 0)
  return ends.length !== sessions || reported.size > counted
}

// oxlint-disable-next-line no-control-regex -- colours begin with the escape character
const ESCAPES = /\u001B\[[\d;]*m/g
