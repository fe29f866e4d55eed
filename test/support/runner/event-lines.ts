/** The reporter of `node --test` for one file: writes each event as a line of JSON to stdout, for `judge-file.ts`. */
import { readFileSync } from 'node:fs'
import { inspect } from 'node:util'
import type { TestEvent } from 'node:test/reporters'
import type { FileEvent } from './judge-file.ts'

// Node's runner takes a reporter as a default export.
// oxlint-disable-next-line import/no-default-export
export default async function* eventLines(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const event of source) {
    const line = toLine(event)
    if (line !== null) yield `${JSON.stringify(line)}\n`
  }
  const seconds = usedSeconds()
  if (seconds !== null) yield `${JSON.stringify({ type: 'cpu', seconds } satisfies FileEvent)}\n`
}

/** Linux's clock for processes has this rate on every machine. */
const TICKS_PER_SECOND = 100

/** CPU time of this process and of all descendants whose parents waited for them; detached processes are missing. */
function usedSeconds(): number | null {
  if (process.platform !== 'linux') return null
  // After the name in brackets: state, ten numbers, then ticks of the process and of its children, in user and system mode.
  const fields = readFileSync('/proc/self/stat', 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number.parseInt(field, 10), 0)
  return ticks / TICKS_PER_SECOND
}

/** Common fields of passes and failures. */
type TestEnd = Pick<Extract<TestEvent, { type: 'test:pass' }>['data'], 'name' | 'nesting' | 'skip' | 'todo'> & {
  details: { type?: string | undefined; duration_ms: number }
  expectFailure?: unknown
}

function toLine(event: TestEvent): FileEvent | null {
  switch (event.type) {
    case 'test:pass':
      return { type: 'pass', ...endedTest(event.data) }
    case 'test:fail': {
      const { error } = event.data.details
      return { type: 'fail', ...endedTest(event.data), failureType: failureTypeOf(error), error: textOf(error) }
    }
    case 'test:summary': {
      const { file, success, counts } = event.data
      // The summary without a file is the sum over all files.
      return file === undefined ? null : { type: 'summary', success, passed: counts.passed }
    }
    case 'test:diagnostic':
      return { type: 'note', text: event.data.message, nesting: event.data.nesting }
    case 'test:stdout':
    case 'test:stderr':
      return { type: 'output', text: event.data.message }
    default:
      return null
  }
}

function endedTest({ name, nesting, details, skip, todo, expectFailure }: TestEnd) {
  return {
    name,
    nesting,
    isSuite: details.type === 'suite',
    ms: details.duration_ms,
    ...(skip === undefined ? {} : { skip }),
    ...(todo === undefined ? {} : { todo }),
    // A test that is expected to fail proves as little as a skipped one.
    ...(expectFailure === undefined || skip !== undefined ? {} : { skip: 'is expected to fail' }),
  }
}

function failureTypeOf(error: Error): string {
  return String((error as Error & { failureType?: unknown }).failureType)
}

/** The test's own error; the runner's wrapper adds nothing. */
function textOf(error: Error): string {
  const { cause } = error
  return cause instanceof Error ? inspect(cause) : typeof cause === 'string' ? cause : inspect(error)
}
