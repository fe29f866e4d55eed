/** A scenario that counts executions is only worth what it would notice: commands run twice, not at all, or in another order. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseReply } from '../../../src/scaffold/observation.ts'
import { makeRecord } from '../episode-records.ts'
import type { RecordedTurn } from '../run-records.ts'
import { countExecutions, markReply, traceExecutions } from './trace-executions.ts'

/** Prompts of 10, 17 and 24 tokens; the second turn had no command. */
const turns = [10, 4, 4].map((delta, turn) => ({
  action: { turn, promptDelta: Array(delta).fill(1), ids: [1, 2, 3], command: turn === 1 ? null : 'x' },
  observation: null,
})) as unknown as RecordedTurn[]
const record = makeRecord({ turns: 3, disposition: 'submitted' })

const patchOf = (...names: number[]): string =>
  [
    'diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-1\n+99\n',
    `diff --git a/executions.txt b/executions.txt\nnew file mode 100644\n--- /dev/null\n+++ b/executions.txt\n@@ -0,0 +1,${names.length} @@\n`,
    names.map((name) => `+${name}\n`).join(''),
  ].join('')

const faultsOf = (patch: string | null): string => countExecutions({ record, turns, patch }).faults.join()

test('accepts and counts commands that ran once', () => {
  assert.deepEqual(countExecutions({ record, turns, patch: patchOf(10, 24) }), { commands: 2, faults: [] })
})

test('reports a command that ran twice, in any turn', () => {
  assert.match(faultsOf(patchOf(10, 10, 24)), /turn 0 was executed again: ran 10 10 24, recorded 10 24/)
  assert.match(faultsOf(patchOf(10, 24, 24)), /turn 2 was executed again/)
  assert.match(faultsOf(patchOf(10, 24, 10)), /turn 0 was executed again/)
})

test('reports a recorded command that did not run, an unrecorded one that did, and missing evidence', () => {
  assert.match(faultsOf(patchOf(24)), /ran other commands than are recorded/)
  assert.match(faultsOf(patchOf(10, 17, 24)), /ran other commands/)
  assert.match(faultsOf(patchOf().split('diff --git a/executions')[0] ?? ''), /cannot be counted/)
  assert.match(faultsOf(null), /cannot be counted/)
})

test('marks the command of a reply with its turn, submits in the last one, and leaves a reply without a command', () => {
  const marked = parseReply(markReply('Look.\n```command\nopen a.py\n```', { name: 17, isLast: false })).command
  assert.equal(marked, 'echo 17 >>/var/tmp/executions\nopen a.py')
  const done = parseReply(markReply('```command\nsubmit\n```', { name: 24, isLast: false })).command
  assert.equal(done, 'echo 24 >>/var/tmp/executions\ncp /var/tmp/executions /testbed/executions.txt\nsubmit')
  assert.equal(parseReply(markReply('no block', { name: 24, isLast: true })).command, done)
  assert.equal(markReply('no block', { name: 24, isLast: false }), 'no block')
})

test('a repeated sample is the same turn, and the last turn is known by the turn limit', () => {
  const { mark } = traceExecutions({ maxTurns: 2 })
  const reply = (promptTokens: number): string => {
    const exchange = { session: 's', promptTokens, startedMs: 0, endedMs: null, status: null }
    const body = mark(exchange, { choices: [{ text: '```command\nls\n```' }] })
    return parseReply((body['choices'] as { text: string }[])[0]?.text ?? '').command ?? ''
  }
  assert.match(reply(10), /ls$/)
  assert.match(reply(10), /ls$/)
  assert.match(reply(17), /submit$/)
  assert.match(reply(10), /ls$/)
})
