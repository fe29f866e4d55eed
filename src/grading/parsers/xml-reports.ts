/** Reports of JUnit and doctest as complete XML documents, as SWE-rebench-V2 parses them. `junit-text.ts` reads reports between other
 *  output. */
import { createNameJoiner } from './line-reader.ts'
import { PythonError, pythonStrip } from './python-text.ts'
import type { LogParser, StatusMap } from './status-map.ts'
import { descendants, parseXml, type XmlElement } from './xml.ts'

const START = '<?xml'
const SUITES_END = '</testsuites>'

/** Each parser has its own order of precedence. */
const CHILD_STATUSES: Record<string, string> = { failure: 'FAILED', error: 'ERROR', skipped: 'SKIPPED' }

function statusOf({ children }: XmlElement, order: readonly string[]): string {
  const found = order.find((tag) => children.some((child) => child.tag === tag))
  return CHILD_STATUSES[found ?? ''] ?? 'PASSED'
}

function readReport(text: string): XmlElement | null {
  try {
    return parseXml(text)
  } catch (error) {
    if (error instanceof PythonError) return null
    throw error
  }
}

/** One report and nothing else. A missing attribute becomes `None`. */
export const parseTestReport: LogParser = (text) => {
  const statuses: StatusMap = new Map()
  const root = readReport(text)
  for (const element of root === null ? [] : descendants(root)) {
    if (element.tag !== 'testcase') continue
    const name = ['classname', 'name'].map((key) => element.attributes.get(key) ?? 'None').join('::')
    statuses.set(name, statusOf(element, ['failure', 'skipped', 'error']))
  }
  return statuses
}

/** All reports of a log, each from its declaration to `</testsuites>`. */
export const parseCombinedReports: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  for (let start = log.indexOf(START); start >= 0; ) {
    const end = log.indexOf(SUITES_END, start)
    if (end < 0) break
    const next = end + SUITES_END.length
    for (const [name, status] of parseTestReport(log.slice(start, next))) statuses.set(name, status)
    start = log.indexOf(START, next)
  }
  return statuses
}

/** testthat's reporter `junit`: the first report of the log. */
export const parseRJunit: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  const start = log.indexOf(START)
  if (start < 0) return statuses
  const end = log.indexOf(SUITES_END, start)
  const root = readReport(end < 0 ? log.slice(start) : log.slice(start, end + SUITES_END.length))
  for (const suite of root === null ? [] : descendants(root)) {
    if (suite.tag !== 'testsuite') continue
    for (const element of suite.children.filter(({ tag }) => tag === 'testcase')) {
      const [name, className] = namesOf(element)
      const whole = className === '' ? name : `${className}::${name}`
      statuses.set(whole, statusOf(element, ['failure', 'error', 'skipped']))
    }
  }
  return statuses
}

function namesOf({ attributes }: XmlElement): [name: string, className: string] {
  return [attributes.get('name') ?? '', attributes.get('classname') ?? '']
}

/** Gradle's reports, each from a line that begins with the declaration to a line that begins with `</testsuite>`. */
export const parseGradlewV1: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  let block: string[] | null = null
  for (const line of log.split('\n')) {
    const text = pythonStrip(line)
    if (text.startsWith(START)) block = [line]
    else if (block !== null) {
      block.push(line)
      if (!text.startsWith('</testsuite>')) continue
      const root = readReport(block.join('\n'))
      block = null
      for (const element of root === null ? [] : descendants(root)) {
        if (element.tag !== 'testcase') continue
        const [name, className] = namesOf(element)
        const whole = name === '' || className === '' ? name : `${name} (${className})`
        statuses.set(whole, statusOf(element, ['skipped', 'failure', 'error']))
      }
    }
  }
  return statuses
}

const DOCTEST_START = '<doctest'
const DOCTEST_END = '</doctest>'
/** Cases are not nested; every level of nesting would read all elements below it again. */
const MAX_DEPTH = 16

/** doctest's reporter `xml`. As upstream has it, an invalid or incomplete report raises. */
export const parseDoctest: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  const start = log.indexOf(DOCTEST_START)
  if (start < 0) return statuses
  const end = log.indexOf(DOCTEST_END, start)
  const join = createNameJoiner(log, ' > ')
  const root = parseXml(end < 0 ? '' : log.slice(start, end + DOCTEST_END.length))
  const all = [root, ...descendants(root)]
  const failed = failedElements(all)
  const nameOf = ({ attributes }: XmlElement): string => attributes.get('name') ?? 'None'
  let left = MAX_DEPTH * all.length
  for (const testCase of all) {
    if (testCase.tag !== 'TestCase') continue
    for (const subcase of descendants(testCase)) {
      left -= 1
      if (left < 0) throw new PythonError('MemoryError', 'cases lie in cases, and each names its tests again')
      if (subcase.tag !== 'SubCase') continue
      statuses.set(join([nameOf(testCase), nameOf(subcase)]), failed.has(subcase) ? 'FAILED' : 'PASSED')
    }
  }
  return statuses
}

/** Elements with an unsuccessful expression anywhere below them. */
function failedElements(all: readonly XmlElement[]): Set<XmlElement> {
  const failed = new Set<XmlElement>()
  // In document order every element follows its parent, so the reverse order visits it before its parent.
  const parents = new Map<XmlElement, XmlElement>()
  for (const parent of all) for (const child of parent.children) parents.set(child, parent)
  for (const element of all.toReversed()) {
    const parent = parents.get(element)
    const isFailure = element.tag === 'Expression' && element.attributes.get('success') !== 'true'
    if (parent !== undefined && (isFailure || failed.has(element))) failed.add(parent)
  }
  return failed
}
