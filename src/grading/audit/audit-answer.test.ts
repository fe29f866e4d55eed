import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readAuditAnswer } from './audit-answer.ts'

const ANSWER = {
  schema: 1,
  ended: 'complete',
  detail: 'x',
  tests: [
    { id: 'a', outcome: 'passed' },
    { id: 'b', outcome: 'xfailed' },
  ],
  canaries: [
    { module: 'm', must: 'pass', outcome: 'passed', ok: true },
    { module: 'm', must: 'fail', outcome: 'failed', ok: false },
  ],
  changed: ['one', 'two'],
}

const read = (changes: Record<string, unknown>) =>
  readAuditAnswer(Buffer.from(JSON.stringify({ ...ANSWER, ...changes })))

test('accepts an answer as the script writes it', () => {
  const { schema: _schema, ...rest } = ANSWER
  assert.deepEqual(read({}), rest)
  for (const ended of ['complete', 'early', 'timeout', 'noise']) assert.equal(read({ ended })?.ended, ended)
  for (const detail of [null, undefined, 7]) assert.equal(read({ detail })?.detail, null)
  assert.deepEqual(read({ tests: [], canaries: [], changed: [] })?.tests, [])
})

const [ANY_TEST, OTHER_TEST] = ANSWER.tests
const [ANY_CANARY, OTHER_CANARY] = ANSWER.canaries

for (const [title, changes] of [
  ['another schema', { schema: 2 }],
  ['no schema', { schema: undefined }],
  ['an unknown ending', { ended: 'well' }],
  ['no ending', { ended: undefined }],
  ['tests that are no list', { tests: {} }],
  ['canaries that are no list', { canaries: 'none' }],
  ['changes that are no list', { changed: null }],
  ['a test without a name', { tests: [ANY_TEST, { outcome: 'passed' }] }],
  ['a test with an unknown outcome', { tests: [ANY_TEST, { id: 'a', outcome: 'ok' }] }],
  ['a test that is a list', { tests: [OTHER_TEST, ['a', 'passed']] }],
  ['a test that is text', { tests: [OTHER_TEST, 'a'] }],
  ['a test that is null', { tests: [OTHER_TEST, null] }],
  ['a canary that is null', { canaries: [ANY_CANARY, null] }],
  ['a canary that is text', { canaries: ['x'] }],
  ['a canary without a module', { canaries: [ANY_CANARY, { ...OTHER_CANARY, module: 1 }] }],
  ['a canary without a known requirement', { canaries: [ANY_CANARY, { ...OTHER_CANARY, must: 'skip' }] }],
  ['a canary without an outcome', { canaries: [ANY_CANARY, { ...OTHER_CANARY, outcome: null }] }],
  ['a canary that is neither right nor wrong', { canaries: [ANY_CANARY, { ...OTHER_CANARY, ok: 'true' }] }],
  ['a change that is no name', { changed: ['a', 1] }],
] as const) {
  test(`${title}: it is refused`, () => assert.equal(read(changes), null))
}

test('refuses bytes that are no JSON, no object or no UTF-8', () => {
  for (const text of ['', '{', 'null', '[]', '7', '"x"']) assert.equal(readAuditAnswer(Buffer.from(text)), null, text)
  const bytes = Buffer.from(JSON.stringify({ ...ANSWER, detail: 'DETAIL' }))
  bytes[bytes.indexOf('DETAIL')] = 0xff
  assert.equal(readAuditAnswer(bytes), null)
})
