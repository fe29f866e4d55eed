/**
 * The lines that the real runner reads and writes, held against a transcript that the unit test of `runner-wire.ts` parses. The runner is a
 * C program of its own: a field that one side moves would be read as another by the other side. After a wanted change record the
 * transcript anew and format it: LONGHAUL_RECORD_TRANSCRIPT=1 npm test -- test/integration/runner-wire.test.ts
 */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'

import {
  CONNECT_COMMAND,
  createConnection,
  openRunnerExec,
} from '../../src/adapters/docker/sandbox/runner-connection.ts'
import {
  MAX_TREE_BYTES,
  encodeCapture,
  encodeInit,
  encodeTakeOver,
  encodeTree,
  encodeTurn,
} from '../../src/adapters/docker/sandbox/runner-wire.ts'
import type { TurnMark } from '../../src/contracts/sandbox.types.ts'
import { readTranscript, TRANSCRIPT, type WireExchange, steadyOf } from '../support/wire-transcript.ts'
import { type SandboxFixture, createSandboxFixture, never } from './sandbox-fixture.ts'

const MAX_BODY_BYTES = 64 * 1024
const cpuMs = 60_000

let fixture: SandboxFixture

before(async () => {
  fixture = await createSandboxFixture('wire', { 'm.py': 'x = 1\n' })
})

after(() => fixture.dispose())

test('the runner reads and answers each request like the transcript', async () => {
  const { name, startCommit } = await fixture.host.open(fixture.openInput(), never)
  const connection = createConnection(await openRunnerExec(fixture.engine, name, CONNECT_COMMAND))
  const heard: WireExchange[] = []
  const ask = async (what: string, request: string, maxBodyBytes = MAX_BODY_BYTES): Promise<void> => {
    const { words, openFile, state, body } = await connection.ask(request, maxBodyBytes)
    heard.push({ what, request, words, openFile, state: state.toString(), body: body.toString() })
  }
  const turn = { turn: 0, after: null, fence: 1, token: 'aa', timeoutMs: 20_000, maxOutputBytes: 20 }
  const first = encodeTurn({ ...turn, command: 'export A=b; echo one >> m.py; seq 100; exit 3' })
  await ask('init', encodeInit(null), 0)
  await ask('turn', first)
  await ask('turn again', first)
  await ask('another command', encodeTurn({ ...turn, command: 'true' }))
  const after = { turn: 1, token: 'bb' }
  await ask(
    'tool',
    encodeTurn({ ...turn, turn: 1, token: 'bb', after: { turn: 0, token: 'aa' }, command: 'open m.py' }),
  )
  await ask('behind', encodeTree({ startCommit, after: { turn: 9, token: 'zz' }, cpuMs }))
  await ask('capture', encodeCapture({ mode: 'all', startCommit, maxBytes: 10_000, after, cpuMs }))
  await ask('capture too large', encodeCapture({ mode: 'all', startCommit, maxBytes: 3, after, cpuMs }))
  await ask('tree', encodeTree({ startCommit, after, cpuMs }), MAX_TREE_BYTES)
  await ask('timeout', encodeTurn({ ...turn, turn: 2, token: 'cc', after, timeoutMs: 300, command: 'sleep 60' }))
  await ask('fenced', encodeTurn({ ...turn, turn: 3, token: 'dd', after, fence: 0, command: 'true' }))
  await ask('take over', encodeTakeOver(5))
  await ask('fenced by taking over', encodeTurn({ ...turn, turn: 3, token: 'dd', after, fence: 4, command: 'true' }))
  await ask('take over too late', encodeTakeOver(4))
  connection.close()
  if (process.env['LONGHAUL_RECORD_TRANSCRIPT'] === '1') {
    await writeFile(TRANSCRIPT, `${JSON.stringify({ startCommit, exchanges: heard }, null, 2)}\n`)
  }
  const known = readTranscript()
  assert.deepEqual(
    heard.map((one) => steadyOf(one, startCommit)),
    known.exchanges.map((one) => steadyOf(one, known.startCommit)),
  )
})

/** Each takes the place of Git, keeps its old place in mind, and computes without an end when it is called. */
const COMPUTING: [what: string, script: string][] = [
  ['a program in the place of Git', 'while :; do :; done'],
  [
    'one whose children compute in turn',
    '[ "$1" = child ] && { i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit; }; while :; do git child; done',
  ],
  ['one that computes and sleeps', 'while :; do i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sleep 0.2; done'],
]

for (const [at, [what, script]] of COMPUTING.entries()) {
  test(`${what}: capture and tree hash stop at the CPU limit, and the real Git answers afterwards`, async () => {
    const { name, startCommit } = await fixture.host.open(fixture.openInput({ episode: `wire/computing-${at}` }), never)
    const connection = createConnection(await openRunnerExec(fixture.engine, name, CONNECT_COMMAND))
    const run = async (turn: number, token: string, after: TurnMark | null, command: string): Promise<void> => {
      const request = { turn, token, after, fence: 1, timeoutMs: 20_000, maxOutputBytes: 2000, command }
      const { words, body } = await connection.ask(encodeTurn(request), MAX_BODY_BYTES)
      assert.deepEqual(words.slice(0, 2), ['done', '0'], body.toString())
    }
    const replace = `git=$(command -v git); mv $git /real-git; cat >$git <<'EOF'\n#!/bin/sh\n${script}\nEOF\nchmod +x $git`
    await run(0, 'aa', null, `echo 'x = 2' >m.py; ${replace}`)
    const after = { turn: 0, token: 'aa' }
    const limited = { startCommit, after, cpuMs: 500 }
    const captured = await connection.ask(encodeCapture({ ...limited, mode: 'all', maxBytes: 10_000 }), MAX_BODY_BYTES)
    assert.deepEqual(captured.words, ['uncaptured', 'cpu-limit'])
    const tree = await connection.ask(encodeTree(limited), MAX_TREE_BYTES)
    assert.equal(tree.body.toString().startsWith('unreadable\n'), true, tree.body.toString().slice(0, 200))
    await run(1, 'bb', after, 'mv /real-git $(command -v git)')
    const asked = { startCommit, after: { turn: 1, token: 'bb' }, cpuMs, mode: 'all' as const, maxBytes: 10_000 }
    const whole = await connection.ask(encodeCapture(asked), MAX_BODY_BYTES)
    assert.match(whole.body.toString(), /^\+x = 2$/m)
    connection.close()
  })
}
