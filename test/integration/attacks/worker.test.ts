/**
 * An agent tries to stop or to fill the worker that serves it. Whatever it sends is bounded before it is held, and its neighbours
 * go on.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { MAX_STATE_BYTES } from '../../../src/adapters/docker/runner-protocol.ts'
import { type SandboxFixture, createPlayer, createSandboxFixture, lastTurn, never } from '../sandbox-fixture.ts'

let fixture: SandboxFixture
let placement = 1

before(async () => {
  fixture = await createSandboxFixture('worker', { 'm.py': 'x = 1\n' })
})

after(() => fixture.dispose())

async function newSandbox(): ReturnType<SandboxFixture['host']['open']> {
  placement += 1
  return fixture.host.open(fixture.openInput({ placement }), never)
}

test('an environment of a megabyte, by small variables: not kept, said so, and the sandbox goes on with the state before', async () => {
  const sandbox = await newSandbox()
  const player = createPlayer(fixture.host, sandbox)
  await player.play('export KEPT=yes; cd /tmp')
  const big = await player.play(
    'x=$(head -c 10000 /dev/zero | tr "\\0" x); i=0; while [ $i -lt 100 ]; do export V$i="$x"; i=$((i + 1)); done',
    { timeoutMs: 120_000 },
  )
  assert.match(big.text, /Notice: the shell's environment and directory take \d+ bytes; at most 65536 are kept/)
  assert.equal(big.exitCode, 0)
  assert.ok(big.state.environment.length < MAX_STATE_BYTES)
  assert.equal((await player.play('echo "$KEPT $V7"; pwd')).text, 'yes \n/tmp\n')
  await fixture.host.close(sandbox)
})

test('25,000 new files with long names: their listing becomes one hash, equal for equal trees and another for others', async () => {
  const sandbox = await newSandbox()
  const player = createPlayer(fixture.host, sandbox)
  const name = 'n'.repeat(200)
  await player.play(`mkdir ${name}; cd ${name}; i=0; while [ $i -lt 25000 ]; do : >${name}$i; i=$((i + 1)); done`, {
    timeoutMs: 60_000,
  })
  const hash = await fixture.host.treeHash(sandbox, lastTurn(sandbox), never)
  assert.equal(await fixture.host.treeHash(sandbox, lastTurn(sandbox), never), hash)
  await player.play(`echo changed >${name}24999`)
  assert.notEqual(await fixture.host.treeHash(sandbox, lastTurn(sandbox), never), hash)
  await fixture.host.close(sandbox)
})
