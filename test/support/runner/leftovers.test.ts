import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { identify, isAlive } from '../../../src/platform/processes.ts'
import { endLeftovers } from './leftovers.ts'

test('ends a process that a test left in its own session, but none of other folders', {
  skip: process.platform === 'linux' ? false : 'looks into /proc',
}, async (t) => {
  const home = await mkdtemp(join(tmpdir(), 'leftovers-'))
  t.after(() => rm(home, { recursive: true, force: true }))
  const start = async (folder: string) => {
    const child = spawn('sleep', ['600'], { env: { ...process.env, TMPDIR: folder }, detached: true, stdio: 'ignore' })
    t.after(() => child.kill('SIGKILL'))
    await once(child, 'spawn')
    return identify(child.pid ?? 0)
  }
  const scratch = join(home, 'tmp-1')
  const [left, deeper, other] = [await start(scratch), await start(join(scratch, 'a')), await start(`${scratch}0`)]

  const ended = await endLeftovers(scratch)
  assert.deepEqual(new Set(ended.map(({ pid }) => pid)), new Set([left.pid, deeper.pid]))
  assert.deepEqual([left, deeper, other].map(isAlive), [false, false, true])
  assert.deepEqual(await endLeftovers(scratch), [])
})
