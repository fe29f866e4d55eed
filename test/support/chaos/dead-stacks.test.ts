import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'

import { identify, isAlive } from '../../../src/platform/processes.ts'
import { clearDeadStacks, noteStackOwner, STACK_PREFIX } from './dead-stacks.ts'

const mayMount = process.getuid?.() === 0

test('removes processes, mounts and folder of a killed harness, but not those of a live or unknown one', async () => {
  const root = mkdtempSync(join(tmpdir(), 'longhaul-test-'))
  const folderOf = (name: string): string => {
    const folder = join(root, `${STACK_PREFIX}${name}`)
    mkdirSync(join(folder, 'artifacts'), { recursive: true })
    return folder
  }
  const [dead, live, unowned] = [folderOf('dead'), folderOf('live'), folderOf('unowned')]
  const parts = [dead, live].map((cwd) => spawn('sleep', ['600'], { cwd, detached: true, stdio: 'ignore' }))
  const [orphan, busy] = parts.map(({ pid }) => identify(pid ?? 0))
  try {
    // The number is taken again, by a process that started later.
    writeFileSync(join(dead, 'owner.json'), JSON.stringify({ pid: process.pid, startTime: '1' }))
    await noteStackOwner(live)
    if (mayMount) execFileSync('mount', ['-t', 'tmpfs', 'longhaul-test', join(dead, 'artifacts')])
    const said: string[] = []
    assert.deepEqual(await clearDeadStacks({ root, say: (line) => said.push(line) }), [dead])
    assert.match(said.join(), mayMount ? /1 processes.*1 mounts/ : /1 processes/)
    assert.deepEqual([existsSync(dead), existsSync(live), existsSync(unowned)], [false, true, true])
    assert.ok(orphan !== undefined && !isAlive(orphan))
    assert.ok(busy !== undefined && isAlive(busy))
    assert.ok(!readFileSync('/proc/self/mountinfo', 'utf8').includes(dead))
  } finally {
    for (const part of parts) part.kill('SIGKILL')
    rmSync(root, { recursive: true })
  }
})
