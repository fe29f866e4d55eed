/**
 * A sandbox whose limit of processes is used up to the last: nothing can be started in it, and a shell that cannot start a
 * process ends. Turns end with a result of their own all the same, soon, and the next one runs.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import type { SandboxHandle } from '../../src/contracts/sandbox.types.ts'
import {
  PATIENT,
  type Player,
  type SandboxFixture,
  createPlayer,
  lastTurn,
  createSandboxFixture,
  never,
} from './sandbox-fixture.ts'
import { eventually } from '../support/hang.ts'

const LIMITS = { cpus: 1, memoryMiB: 256, pids: 40 }

let fixture: SandboxFixture
let sandbox: SandboxHandle
let player: Player
let placement = 0

before(async () => {
  fixture = await createSandboxFixture('crowded', { 'm.py': 'x = 1\n' })
})

after(() => fixture.dispose())

async function openAnother(): Promise<void> {
  placement += 1
  sandbox = await fixture.host.open(fixture.openInput({ placement, limits: LIMITS, leaseMs: 9000 }), never)
  player = createPlayer(fixture.host, sandbox)
}

/** Waits until the sandbox has many processes and gets no more; it can start none that would count them. */
async function untilFull(): Promise<void> {
  let before = 0
  await eventually(async () => {
    const { Processes: processes } = await fixture.engine.docker.getContainer(sandbox.name).top()
    const isFull = processes.length > LIMITS.pids / 2 && processes.length === before
    before = processes.length
    assert.ok(isFull, `${before} processes, perhaps soon more`)
  })
}

/** Starts sleepers until no more can be started, and ends. */
const FILL = `python3 - <<'END'
import os, time
while True:
    try:
        child = os.fork()
    except OSError:
        break
    if child == 0:
        os.setsid()
        time.sleep(5000)
        os._exit(0)
END`

test('a command that fills the process limit in the background keeps its own result, and the next one runs', async () => {
  await openAnother()
  const full = await player.play(`${FILL}\necho left; exit 3`, PATIENT)
  assert.deepEqual([full.reason, full.exitCode], ['exit', 3])
  assert.match(full.text, /^left\nNotice: .*processes/)
  const next = await player.play('echo on | cat', PATIENT)
  assert.deepEqual([next.text, next.exitCode], ['on\n', 0])
})

test('a command that fills the process limit in the foreground ends as process-limit before its deadline', async () => {
  const full = await player.play(`echo begun; ${FILL}\nsleep 4000`, PATIENT)
  assert.deepEqual([full.reason, full.exitCode], ['process-limit', null])
  assert.match(full.text, /^begun\n/)
  assert.equal((await player.play('echo on | cat', PATIENT)).text, 'on\n')
})

test('a fork bomb that leaves its session and environment ends as process-limit and leaves no process', async () => {
  const bomb = await player.play(
    `env -i setsid bash -c 'b() { b | b & }; b; while :; do b; done' & sleep 4000`,
    PATIENT,
  )
  assert.equal(bomb.reason, 'process-limit')
  const { text } = await player.play('ls -d /proc/[0-9]* | wc -l', PATIENT)
  assert.ok(Number(text) < 20, `${text} processes are left`)
})

test('a turn that meets a process limit filled in between frees it, says so and runs', async () => {
  await player.play(`(sleep 1; ${FILL}\n) & echo started`, PATIENT)
  await untilFull()
  const next = await player.play('echo on | cat', PATIENT)
  assert.match(next.text, /^Notice: .*processes.*\non\n$/)
  const { patch } = await fixture.host.capture(sandbox, { mode: 'all', after: lastTurn(sandbox) }, never)
  assert.equal(patch.byteLength, 0)
})
