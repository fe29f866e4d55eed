import { decodeLog, sliceLog } from './log-slice.ts'

/** Words in the counts of a session's last line, and its duration. */
const COUNTED = /\b(?:passed|failed|errors?|skipped|xfailed|xpassed|deselected|no tests ran)\b/
const TOOK = / in [\d.]+s/g
const SESSION = /^=+ test session starts =+$/gm

/**
 * Whether a pytest log contradicts itself, as it does when something other than the tests writes into it or ends the session: the
 * numbers of session starts and ends differ although results were reported, or more tests passed than the sessions counted. A session
 * without a header proves nothing.
 */
export function isInconsistentLog(log: Uint8Array): boolean {
  // swebench 5 grades a log with bytes that are no text, so one such byte must not hide a contradiction.
  const decoded = decodeLog(log, 'replace')
  const slice = decoded === null ? null : sliceLog(decoded)
  if (slice === null) return false
  const text = slice.replaceAll(ESCAPES, '')
  const reported = new Set(text.split('\n').filter((line) => /^PASSED \S/.test(line)))
  const sessions = text.match(SESSION)?.length ?? 0
  if (sessions === 0 || reported.size === 0) return false
  const ends = text.split(/[\n\r\u2028\u2029]/).flatMap(passedAtTheEnd)
  const counted = ends.reduce((sum, passed) => sum + passed, 0)
  return ends.length !== sessions || reported.size > counted
}

/**
 * The number of passed tests in the last line of a session that ended normally and is not fully quiet: `==== 3 passed, 1 failed in
 * 0.12s ====`. Each part is matched separately, because one pattern for the whole line takes at least cubic time.
 */
function passedAtTheEnd(line: string): number[] {
  if (!line.startsWith('=') || !line.endsWith('=')) return []
  if (behindSigns(line, 0, 1) !== ' ' || behindSigns(line, line.length - 1, -1) !== ' ') return []
  const took = [...line.matchAll(TOOK)].at(-1)
  const counts = took === undefined ? '' : line.slice(0, took.index)
  return COUNTED.test(counts) ? [Number(/(?<!\d)(\d+) passed/.exec(counts)?.[1] ?? 0)] : []
}

/** The first character after a run of `=`. */
function behindSigns(line: string, from: number, step: 1 | -1): string | undefined {
  let at = from
  while (line[at] === '=') at += step
  return line[at]
}

// oxlint-disable-next-line no-control-regex -- colours begin with the escape character
const ESCAPES = /\u001B\[[\d;]*m/g
