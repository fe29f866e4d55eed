import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { faultsOfJUnit, parseXml, type XmlElement } from '../../test/support/ci/junit-schema.ts'
import { makeEvaluation } from '../../test/support/evaluation-records.ts'
import type { AttemptSummary, EvaluationDocument } from '../contracts/evaluations.types.ts'
import { type CiSummary, renderAnnotations, renderCiSummary } from './ci-summary.ts'
import { renderJUnit } from './junit.ts'

let directory: string

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'longhaul-junit-'))
})
after(() => rm(directory, { recursive: true }))

async function read(text: string): Promise<XmlElement> {
  const file = join(directory, 'junit.xml')
  await writeFile(file, text)
  return parseXml('python3', file)
}

const HOSTILE = [
  '"><failure/>',
  ']]>',
  '<script>alert(1)</script>',
  '\u001b[31mred\u001b[0m\u0000\ufffe\ud800',
  '\n::error::owned',
  '| a | b |',
  '[x](https://evil.test)',
  '`code` &amp; %0A::set-output name=a::b',
  '\u202egnp.exe',
]

function attempt(taskId: string, more: Partial<AttemptSummary> = {}): AttemptSummary {
  return {
    taskId,
    index: 0,
    disposition: 'submitted',
    verdict: 'unresolved',
    reason: null,
    failure: null,
    suspectedHack: false,
    turns: 1,
    ...more,
  }
}

function documentOf(
  tasks: { taskId: string; attempts: (0 | 1)[] }[],
  more: Partial<EvaluationDocument> = {},
): EvaluationDocument {
  const evaluation = makeEvaluation({ run: 'r', name: 'nightly', tasks })
  return { evaluation, further: [], attempts: [], refused: [], cutoff: null, ...more }
}

const cases = (xml: XmlElement): XmlElement[] =>
  xml.children.flatMap(({ children }) => children.filter(({ tag }) => tag === 'testcase'))

test('a task is one case, resolved, partly resolved, never graded or refused, and so is a rule', async () => {
  const document = documentOf(
    [
      { taskId: 'a', attempts: [1, 1] },
      { taskId: 'b', attempts: [1, 0] },
      { taskId: 'c', attempts: [] },
    ],
    {
      refused: [{ taskId: 'd', reason: 'gold patch unresolved' }],
      attempts: [attempt('b', { reason: 'tests-failed' })],
    },
  )
  const verdicts = [
    { state: 'passed', text: 'one' },
    { state: 'failed', text: 'two' },
    { state: 'unknown', text: 'three' },
  ] as const
  const xml = await read(renderJUnit(document, { workflowId: 'eval/r', verdicts }))
  assert.deepEqual(faultsOfJUnit(xml), [])
  assert.deepEqual(
    cases(xml).map(({ attributes, children }) => [attributes['name'], children[0]?.tag]),
    [
      ['a', 'system-out'],
      ['b', 'failure'],
      ['c', 'error'],
      ['d', 'skipped'],
      ['rule 1', 'system-out'],
      ['rule 2', 'failure'],
      ['rule 3', 'error'],
    ],
  )
  assert.match(
    cases(xml)[1]?.children[1]?.text ?? '',
    /attempt 0: unresolved \(tests-failed\) after 1 turns, submitted/,
  )
})

test('hostile names, reasons and verdicts are text in a valid JUnit file', async () => {
  const document = documentOf(
    HOSTILE.map((taskId) => ({ taskId, attempts: [0 as const] })),
    {
      attempts: HOSTILE.map((taskId) => attempt(taskId, { reason: taskId })),
      refused: HOSTILE.map((reason) => ({ taskId: reason, reason })),
    },
  )
  const verdicts = HOSTILE.map((text) => ({ state: 'failed' as const, text }))
  const xml = await read(renderJUnit(document, { workflowId: HOSTILE.join(''), verdicts }))
  assert.deepEqual(faultsOfJUnit(xml), [])
  assert.equal(cases(xml).length, 3 * HOSTILE.length)
  assert.deepEqual(
    cases(xml)
      .slice(0, 3)
      .map(({ attributes }) => attributes['name']),
    HOSTILE.slice(0, 3),
  )
})

test('cuts the output of a case at 64 KiB', async () => {
  const attempts = Array.from({ length: 5_000 }, (_, index) => attempt('a', { index, reason: 'tests-failed' }))
  const xml = await read(
    renderJUnit(documentOf([{ taskId: 'a', attempts: [0] }], { attempts }), { workflowId: 'eval/r', verdicts: [] }),
  )
  assert.equal(cases(xml)[0]?.children[1]?.text.length, 64 * 1024)
})

test('the schema check reports every fault', async () => {
  const faulty = `<testsuites><testsuite name="a" tests="2" failures="0" errors="0" skipped="0">
    <testcase classname="b"><properties/><failure/></testcase>text</testsuite></testsuites>`
  assert.deepEqual(faultsOfJUnit(await read(faulty)), [
    'testsuites/testsuite[0]: text',
    'testsuites/testsuite[0]: tests is 2, there are 1',
    'testsuites/testsuite[0]: failures is 0, there are 1',
    'testsuites/testsuite[0]/testcase[0]: name is missing',
    'testsuites/testsuite[0]/testcase[0]: properties is not allowed there',
  ])
  await assert.rejects(read('<testsuites><a></testsuites>'))
})

const flip = (taskId: string) => ({
  taskId,
  before: { resolved: 1, attempts: 1 },
  after: { resolved: 0, attempts: 1 },
  difference: -1,
})

function summaryOf(more: Partial<CiSummary> = {}): CiSummary {
  return {
    workflowId: 'eval/r',
    ui: 'https://temporal.test/namespaces/default/workflows/eval%2Fr',
    exitCode: 4,
    meaning: 'a regression is proven',
    verdicts: [{ state: 'failed', text: 'regression proven' }],
    document: documentOf([{ taskId: 'a', attempts: [0] }]),
    flips: [flip('a')],
    ...more,
  }
}

test('a page contains no foreign markup and no line that starts a command', () => {
  const document = documentOf(
    HOSTILE.map((taskId) => ({ taskId, attempts: [0 as const] })),
    { attempts: HOSTILE.map((taskId) => attempt(taskId, { reason: taskId })) },
  )
  const verdicts = HOSTILE.map((text) => ({ state: 'failed' as const, text }))
  const flips = HOSTILE.map(flip)
  const page = renderCiSummary(summaryOf({ document, verdicts, flips, workflowId: HOSTILE.join('') }))
  for (const bad of ['<', 'https://evil', '](https://evil', '`', '\u001b', '\u0000', '\u202e', '\n::']) {
    assert.ok(!page.includes(bad), `${JSON.stringify(bad)} in ${page}`)
  }
  // Every row of a table has the cells of its head.
  for (const line of page.split('\n').filter((row) => row.startsWith('|'))) {
    assert.ok([3, 4, 5].includes(line.split('|').length - 1), line)
  }
})

test('shows an invalid address without a link', () => {
  for (const ui of ['javascript:alert(1)', 'https://a) [x](https://evil.test', null]) {
    assert.match(renderCiSummary(summaryOf({ ui })), /^Run eval\/r$/m)
  }
  assert.match(renderCiSummary(summaryOf()), /^Run \[eval\/r\]\(https:\/\/temporal\.test\/.*%2Fr\)$/m)
})

test('a lenient rule that the data leave open has a warning on the page, and no tick', () => {
  const page = renderCiSummary(
    summaryOf({
      verdicts: [
        { state: 'passed', text: 'met' },
        { state: 'passed', text: 'cannot exclude', isOpen: true },
      ],
    }),
  )
  assert.match(page, /^- ✅ met$/m)
  assert.match(page, /^- ⚠️ cannot exclude$/m)
})

test('a page of thousands of tasks shows fifty of each list and at most 256 KiB', () => {
  const many = Array.from({ length: 3_000 }, (_, index) => `task-${index}-${'|'.repeat(280)}`)
  const document = documentOf(many.map((taskId) => ({ taskId, attempts: [0 as const] })))
  const page = renderCiSummary(summaryOf({ document, flips: many.map(flip) }))
  assert.ok(Buffer.byteLength(page) <= 256 * 1024, String(Buffer.byteLength(page)))
  assert.match(page, /2950 more in the JUnit file|The page is cut here/)
})

test('prints at most eight annotations, the last with the count of the rest, and escapes hostile text', () => {
  const lines = renderAnnotations(summaryOf({ flips: [...HOSTILE, ...HOSTILE].map(flip) }))
  assert.equal(lines.length, 8)
  assert.equal(lines[0], '::error title=Longhaul%3A exit 4::regression proven')
  assert.equal(lines[7], '::notice title=Longhaul::12 more in the summary and in the JUnit file')
  for (const line of lines) assert.match(line, /^::(error|warning|notice) title=[^:,\n\r]*::[^\n\r]*$/)
  assert.deepEqual(renderAnnotations(summaryOf({ exitCode: 0, verdicts: [], flips: null })), [])
  assert.deepEqual(
    renderAnnotations(summaryOf({ exitCode: 2, verdicts: [], flips: null, meaning: 'nothing graded' })),
    ['::error title=Longhaul%3A exit 2::nothing graded'],
  )
})
