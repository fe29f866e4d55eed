import assert from 'node:assert/strict'
import { test } from 'node:test'
import { randomFrom } from '../../src/adapters/datasets/synthetic/compose.ts'
import { synthesizeTask } from '../../src/adapters/datasets/synthetic/synthesize.ts'
import { parseReply } from '../../src/scaffold/observation.ts'
import { classify } from './classify.ts'
import { noiseOf } from './noise.ts'
import { isRightEdit, nextMove, type SolverView } from './solver.ts'

const { composed, row } = synthesizeTask({ family: 'one-wrong-line', seed: 1, split: 'train', index: 3 })
const { path, definitionLine, wrongLine, rightText } = composed.targetLine

const view = (change: Partial<SolverView>): SolverView => ({
  task: composed,
  stage: 'start',
  observation: '',
  state: { openFile: null, windowTop: 0 },
  repoDir: '/testbed',
  windowLines: 6,
  noise: noiseOf(0),
  random: randomFrom('solver test'),
  ...change,
})

test('without noise the solver searches, opens, edits the wrong line and submits', () => {
  const open = { openFile: `/testbed/${path}`, windowTop: definitionLine }
  const moves = [
    nextMove(view({})),
    nextMove(view({ stage: 'found' })),
    nextMove(view({ stage: 'opened', state: open })),
    nextMove(view({ stage: 'edited', state: open })),
  ]
  assert.deepEqual(
    moves.map(({ reply }) => parseReply(reply).command),
    [
      `search_file "def ${composed.target.verb}_${composed.target.noun}" ${path}`,
      `open ${path} ${definitionLine}`,
      `edit ${wrongLine}:${wrongLine} <<EOF\n${rightText}\nEOF`,
      'submit',
    ],
  )
  assert.ok(isRightEdit(composed, moves[2]?.reply ?? ''))
})

test('searches again in another file, and opens a definition outside of the window', () => {
  const wrongFile = nextMove(view({ stage: 'opened', state: { openFile: '/testbed/other.py', windowTop: 1 } }))
  assert.match(parseReply(wrongFile.reply).command ?? '', /^git grep -n "def /)
  const state = { openFile: `/testbed/${path}`, windowTop: wrongLine + 1 }
  const outOfSight = nextMove(view({ stage: 'opened', state }))
  assert.equal(parseReply(outOfSight.reply).command, `open ${path} ${definitionLine}`)
})

test("a malformed reply is a format error and does not change the solver's state", () => {
  const noise = { ...noiseOf(0), format: 1 }
  for (let draw = 0; draw < 40; draw += 1) {
    const move = nextMove(view({ stage: 'found', noise, random: randomFrom(`draw ${draw}`) }))
    assert.notEqual(parseReply(move.reply).formatError, null)
    assert.equal(move.next, 'found')
  }
})

test('operator noise always writes a wrong line of the same family', () => {
  const noise = { ...noiseOf(0), operator: 1 }
  const state = { openFile: `/testbed/${path}`, windowTop: definitionLine }
  for (let draw = 0; draw < 40; draw += 1) {
    const move = nextMove(view({ stage: 'opened', state, noise, random: randomFrom(`draw ${draw}`) }))
    assert.ok(!isRightEdit(composed, move.reply), move.reply)
  }
})

test('distinguishes endings by the effect of the patch', () => {
  const of = (patch: string, submitted = true): string =>
    classify({ task: composed, patch, submitted, resolved: false })
  const wrong = row.patch.replace(`+${rightText}`, `+${rightText.replace(/\S+ (\S+)$/, '* $1')}`)
  assert.equal(of(''), 'no-edit')
  assert.equal(of(row.patch, false), 'not-submitted')
  assert.equal(of(wrong), 'wrong-operator')
  assert.equal(of(row.patch.replace(`+${rightText}`, '+    return nothing + 1')), 'garbled')
  assert.equal(of(row.patch.replaceAll(path, 'other.py')), 'wrong-place')
  assert.equal(classify({ task: composed, patch: row.patch, submitted: true, resolved: true }), 'resolved')
})
