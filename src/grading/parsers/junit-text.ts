import { pythonStrip, WORD } from './python-text.ts'
import type { LogParser, StatusMap } from './status-map.ts'

const OPENING = new RegExp(`<testcase(?!${WORD})([^>]*)>`, 'gu')
const ATTRIBUTE = new RegExp(`(${WORD}+)="([^"]*)"`, 'gu')
const CLOSING = '</testcase>'

/** How far upstream looks behind an element that is never closed, in code points. */
const OPEN_WINDOW = 4096

/** JUnit reports between other output, read by patterns, because such logs are no whole XML documents. */
export const parseJunitText: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  let hasNoMoreClosings = false
  let from = 0
  for (;;) {
    OPENING.lastIndex = from
    const match = OPENING.exec(log)
    if (match === null) return statuses
    const contentStart = OPENING.lastIndex
    from = contentStart
    const written = match[1] ?? ''
    const attributes = new Map([...written.matchAll(ATTRIBUTE)].map(([, name, value]) => [name, value]))
    const name = attributes.get('name') ?? ''
    if (name === '') continue
    let content = ''
    if (!pythonStrip(written).endsWith('/')) {
      const end: number = hasNoMoreClosings ? -1 : log.indexOf(CLOSING, contentStart)
      hasNoMoreClosings = end < 0
      content = end < 0 ? firstCodePoints(log, contentStart) : log.slice(contentStart, end)
      if (end >= 0) from = end + CLOSING.length
    }
    const className = attributes.get('classname') ?? ''
    statuses.set(className === '' ? name : pythonStrip(`${className} ${name}`), contentStatus(content))
  }
}

function contentStatus(content: string): string {
  if (content.includes('<failure')) return 'FAILED'
  if (content.includes('<error')) return 'ERROR'
  return content.includes('<skipped') ? 'SKIPPED' : 'PASSED'
}

function firstCodePoints(log: string, start: number): string {
  return Array.from(log.slice(start, start + 2 * OPEN_WINDOW))
    .slice(0, OPEN_WINDOW)
    .join('')
}
