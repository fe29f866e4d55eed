/** A fault that met nothing has struck nothing: what counts as an effect, on real processes and files. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { identify } from '../../../src/platform/processes.ts'
import { openAuditLog, readAuditLog } from './audit-log.ts'
import type { ChaosStack } from './chaos-stack.ts'
import { haveDied, isNoted, isStopped, livingProcesses, untilStopped, wasAnswered, wasTroubled } from './effects.ts'
import { ManagedProcess } from './managed-process.ts'

async function withFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'effects-'))
  try {
    await use(folder)
  } finally {
    await rm(folder, { recursive: true })
  }
}

test('detects a killed process, but not a live or absent one', async () => {
  const child = spawn('sleep', ['60'])
  await once(child, 'spawn')
  const identity = identify(child.pid ?? 0)
  try {
    assert.equal(await haveDied([identity], 100), false)
    assert.equal(await haveDied([]), false)
    assert.equal(await haveDied(null), false)
  } finally {
    child.kill('SIGKILL')
  }
  assert.equal(await haveDied([identity]), true)
})

test('detects a stopped process until it continues', async () => {
  const child = spawn('sleep', ['60'])
  await once(child, 'spawn')
  const identity = identify(child.pid ?? 0)
  try {
    assert.equal(isStopped(identity), false)
    child.kill('SIGSTOP')
    assert.equal(await untilStopped(identity), true)
  } finally {
    child.kill('SIGKILL')
  }
})

test('a managed process that does not run is not counted as one to kill', () =>
  withFolder(async (folder) => {
    const plan = { name: 'x', command: 'sleep', args: ['60'], env: {}, log: join(folder, 'log'), cwd: folder }
    const managed = new ManagedProcess(plan)
    assert.equal(livingProcesses([managed]), null)
    managed.start()
    assert.equal(livingProcesses([managed])?.length, 1)
    await managed.stop()
  }))

test('detects a failed write that a worker noted since, and skips a truncated line', () =>
  withFolder(async (folder) => {
    const note = openAuditLog({ folder, process: 'sandbox' })
    note({ kind: 'store-failed', key: 'a', code: 'Artifact.OutOfDisk' })
    await writeFile(join(folder, 'control.jsonl'), '{"atMs":1,"proc')
    const [entry] = readAuditLog(folder)
    assert.ok(entry !== undefined)
    const stack = { auditDir: folder } as ChaosStack
    const hasFailed = (sinceMs: number): boolean => isNoted(stack, sinceMs, ({ kind }) => kind === 'store-failed')
    assert.equal(hasFailed(entry.atMs), true)
    assert.equal(hasFailed(entry.atMs + 1), false)
  }))

test('detects a wrong answer of the policy server by its kind and by its time', () =>
  withFolder(async (folder) => {
    const stack = { policyState: folder } as ChaosStack
    assert.equal(wasTroubled(stack, 0, 'hang'), false)
    await noteExchange(folder, { trouble: 'hang', status: null })
    assert.equal(wasTroubled(stack, 15, 'hang'), true)
    assert.equal(wasTroubled(stack, 21, 'hang'), false)
    assert.equal(wasTroubled(stack, 15, 'rate-limit'), false)
    assert.equal(wasTroubled(stack, 15, 'hang', 'policy-b'), true)
    assert.equal(wasTroubled(stack, 15, 'hang', 'policy'), false)
  }))

test('a session has moved when another server has answered it since, not when that one failed too', () =>
  withFolder(async (folder) => {
    const stack = { policyState: folder } as ChaosStack
    const hasMoved = (sinceMs: number, not: string): boolean => wasAnswered(stack, { sinceMs, session: 's', not })
    await noteExchange(folder, { trouble: 'hang', status: null })
    assert.equal(hasMoved(0, 'policy'), false)
    await noteExchange(folder, { trouble: null, status: 200 })
    assert.equal(hasMoved(0, 'policy'), true)
    assert.equal(hasMoved(0, 'policy-b'), false)
    assert.equal(hasMoved(21, 'policy'), false)
  }))

function noteExchange(folder: string, changed: { trouble: string | null; status: number | null }): Promise<void> {
  const exchange = { server: 'policy-b', session: 's', startedMs: 10, endedMs: 20, ...changed }
  return appendFile(join(folder, 'exchanges.jsonl'), `${JSON.stringify(exchange)}\n`)
}
