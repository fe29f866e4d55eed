/**
 * An agent tries to stop or to fill the worker that serves it. Each of its messages is bounded before the worker buffers it, and its
 * neighbours go on.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { MAX_STATE_BYTES } from '../../../src/adapters/docker/sandbox/runner-wire.ts'
import { isLonghaulError } from '../../../src/contracts/errors.ts'
import { createAttackWorld } from '../../support/attacks/world.ts'
import { ATTACKS } from '../../support/hostile/play-hostile.ts'
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

// `npm run bench:hostile` measures what this only plays: throughput, event loop and memory.
test('every attack on the worker, beside an honest agent: none earns anything, the honest one does, the worker goes on', async () => {
  const world = await createAttackWorld('hostile')
  const stray: unknown[] = []
  const onStray = (error: unknown): void => void stray.push(error)
  process.on('uncaughtException', onStray)
  process.on('unhandledRejection', onStray)
  try {
    const attacks = Object.entries(ATTACKS)
    const lane = async (): Promise<void> => {
      for (let next = attacks.shift(); next !== undefined; next = attacks.shift()) {
        const [name, commands] = next
        const verdict = await world.attack([...commands]).then(
          (result) => result.verdict.kind,
          // A container that the attack has broken is lost, and nothing else is.
          (error: unknown) => (isLonghaulError(error) ? error.code : String(error)),
        )
        assert.ok(
          ['unresolved', 'could-not-grade', 'Sandbox.Lost', 'Sandbox.Ended'].includes(verdict),
          `${name}: ${verdict}`,
        )
      }
    }
    const honest = async (): Promise<void> => {
      const { verdict, reward } = await world.attack(["sed -i 's/a - b/a + b/' calc.py"])
      assert.deepEqual([verdict.kind, reward?.outcome], ['resolved', 1])
    }
    await Promise.all([lane(), lane(), honest()])
    await honest()
    assert.deepEqual(stray, [])
  } finally {
    process.off('uncaughtException', onStray)
    process.off('unhandledRejection', onStray)
    await world.dispose()
  }
})
