import { pythonStrip, WORD } from './python-text.ts'
import type { LogParser, StatusMap } from './status-map.ts'

const OPENING = new RegExp(`<testcase(?!${WORD})`, 'gu')
/** Matches at the first letter of a word only; from every letter the word would be read again. */
const ATTRIBUTE = new RegExp(`(?<!${WORD})(${WORD}+)="([^"]*)"`, 'gu')
const CLOSING = '</testcase>'

/** How far upstream looks behind an element that is never closed, in code points. */
const OPEN_WINDOW = 4096

/** JUnit reports between other output. Patterns read them, because such logs are no complete XML documents. */
export const parseJunitText: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  const isOpenWith = createOpenWindow(log)
  let hasNoMoreClosings = false
  let from = 0
  for (;;) {
    OPENING.lastIndex = from
    const tagEnd = OPENING.test(log) ? log.indexOf('>', OPENING.lastIndex) : -1
    if (tagEnd < 0) return statuses
    const written = log.slice(OPENING.lastIndex, tagEnd)
    const contentStart = tagEnd + 1
    from = contentStart
    const attributes = new Map([...written.matchAll(ATTRIBUTE)].map(([, name, value]) => [name, value]))
    const name = attributes.get('name') ?? ''
    if (name === '') continue
    let status = 'PASSED'
    if (!pythonStrip(written).endsWith('/')) {
      const end: number = hasNoMoreClosings ? -1 : log.indexOf(CLOSING, contentStart)
      hasNoMoreClosings = end < 0
      if (end >= 0) from = end + CLOSING.length
      const content = log.slice(contentStart, Math.max(end, contentStart))
      status = contentStatus(
        end < 0 ? (element) => isOpenWith(element, contentStart) : (element) => content.includes(element),
      )
    }
    const className = attributes.get('classname') ?? ''
    statuses.set(className === '' ? name : pythonStrip(`${className} ${name}`), status)
  }
}

function contentStatus(holds: (element: string) => boolean): string {
  if (holds('<failure')) return 'FAILED'
  if (holds('<error')) return 'ERROR'
  return holds('<skipped') ? 'SKIPPED' : 'PASSED'
}

/** Whether an element occurs within the window after a position. Positions only increase, so each part of the log is scanned once. */
function createOpenWindow(log: string): (element: string, start: number) => boolean {
  let [begin, end, length] = [0, 0, 0]
  const next = new Map<string, number>()
  return (element, start) => {
    for (; begin < start; begin += unitsAt(log, begin)) {
      if (begin < end) length -= 1
      else end = begin + unitsAt(log, begin)
    }
    for (; length < OPEN_WINDOW && end < log.length; length += 1) end += unitsAt(log, end)
    let at = next.get(element) ?? -1
    if (at < start && at !== Number.POSITIVE_INFINITY) {
      at = log.indexOf(element, start)
      if (at < 0) at = Number.POSITIVE_INFINITY
      next.set(element, at)
    }
    return at + element.length <= end
  }
}

/** UTF-16 code units of the character at this position. */
function unitsAt(text: string, at: number): number {
  return (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1
}
