import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'

import { identify, isAlive, listProcesses, stopProcess } from './processes.ts'
import { runCommand } from './run-command.ts'

test('a recorded process whose pid was reused counts as gone and is never signalled', async () => {
  const child = spawn('sleep', ['60'], { detached: true })
  try {
    const stranger = { ...identify(child.pid ?? 0), startTime: '1' }
    assert.equal(isAlive(stranger), false)
    assert.equal(await stopProcess({ identity: stranger, graceMs: 1_000 }), 'gone')
    assert.equal(isAlive(identify(child.pid ?? 0)), true)
  } finally {
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
})

test('a process that ignores TERM is killed with its children after the grace time', async () => {
  const child = spawn('sh', ['-c', "trap '' TERM; sleep 61 & while :; do sleep 1; done"], { detached: true })
  await once(child, 'spawn')
  const identity = identify(child.pid ?? 0)
  // The trap must be set before the signal comes.
  while (!listProcesses().some(({ parent }) => parent === identity.pid))
    await new Promise((done) => setTimeout(done, 10))
  assert.equal(await stopProcess({ identity, graceMs: 100 }), 'killed')
  assert.equal(
    listProcesses().some(({ command, parent }) => command === 'sleep 61' && parent === identity.pid),
    false,
  )
})

test('a command over its timeout ends with its whole group, and the result says so', async () => {
  const result = await runCommand({ command: 'sh', args: ['-c', 'echo begun; sleep 62; echo never'], timeoutMs: 3000 })
  assert.equal(result.timedOut, true)
  assert.equal(result.stdout, 'begun\n')
  assert.equal(
    listProcesses().some(({ command }) => command === 'sleep 62'),
    false,
  )
})

test('a program that does not exist gives no exit code and the reason', async () => {
  const result = await runCommand({ command: 'longhaul-no-such-program', args: [], timeoutMs: 5_000 })
  assert.equal(result.exitCode, null)
  assert.match(result.tail, /ENOENT/)
})
