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
  encodeTree,
  encodeTurn,
} from '../../src/adapters/docker/sandbox/runner-wire.ts'
import { readTranscript, TRANSCRIPT, type WireExchange, steadyOf } from '../support/wire-transcript.ts'
import { type SandboxFixture, createSandboxFixture, never } from './sandbox-fixture.ts'

const MAX_BODY_BYTES = 64 * 1024

let fixture: SandboxFixture

before(async () => {
  fixture = await createSandboxFixture('wire', { 'm.py': 'x = 1\n' })
})

after(() => fixture.dispose())

test('the runner reads and answers each request as the transcript has it', async () => {
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
  await ask('behind', encodeTree({ startCommit, after: { turn: 9, token: 'zz' } }))
  await ask('capture', encodeCapture({ mode: 'all', startCommit, maxBytes: 10_000, after }))
  await ask('capture too large', encodeCapture({ mode: 'all', startCommit, maxBytes: 3, after }))
  await ask('tree', encodeTree({ startCommit, after }), MAX_TREE_BYTES)
  await ask('timeout', encodeTurn({ ...turn, turn: 2, token: 'cc', after, timeoutMs: 300, command: 'sleep 60' }))
  await ask('fenced', encodeTurn({ ...turn, turn: 3, token: 'dd', after, fence: 0, command: 'true' }))
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
