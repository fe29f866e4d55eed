/**
 * No byte is left where the engine keeps its containers. An agent that filled the disk itself gets a turn that says so and may
 * clear it; where the host is full, turns are refused before anything is claimed, as `Sandbox.OutOfDisk`. On an engine of our own
 * with its data in memory.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, open, rm, statfs } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'

import { listSandboxes } from '../../src/adapters/docker/container/list-sandboxes.ts'
import { buildTaskImage } from '../../src/adapters/docker/images/images.ts'
import { createDockerSandboxHost, type DockerSandboxHost } from '../../src/adapters/docker/sandbox/sandbox-host.ts'
import { readBaseImageRecipe } from '../../src/adapters/docker/images/base-image-rootfs.ts'
import type { GradeRunInput, OpenSandboxInput } from '../../src/contracts/sandbox.types.ts'
import { HANG_MS } from '../support/hang.ts'
import { startTestEngine, type TestEngine } from '../support/chaos/private-test-engine.ts'
import {
  codeOf,
  createPlayer,
  lastTurn,
  LIMITS,
  never,
  repositoryTar,
  SMALL_WINDOW,
  untilTrue,
} from './sandbox-fixture.ts'

const isRoot = process.getuid?.() === 0
const skip = isRoot ? false : 'needs root: mounts a file system and starts an engine'
const run = promisify(execFile)
let folder: string
let engine: TestEngine
let host: DockerSandboxHost
const image = `longhaul-test/disk:${process.pid}`

before(async () => {
  if (!isRoot) return
  // Short: sockets lie below it.
  folder = await mkdtemp('/tmp/lh-disk-')
  await run('mount', ['-t', 'tmpfs', '-o', 'size=480m,nr_inodes=120k', 'longhaul-test', folder])
  const cacheHome =
    process.env['LONGHAUL_CACHE'] ?? join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'longhaul')
  engine = await startTestEngine({ folder, imageCache: join(cacheHome, 'images'), log: console.error })
  const { tag } = await readBaseImageRecipe()
  await buildTaskImage({
    engine: engine.engine,
    base: tag,
    tag: image,
    repoTar: repositoryTar({ 'm.py': 'x\n' }),
    labels: {},
  })
  host = createDockerSandboxHost({ engine: engine.engine, hostId: 'test-host', hostQueue: 'sandbox.test' })
})

after(async () => {
  if (!isRoot) return
  host?.dispose()
  // An engine cannot be stopped in order without room for its records.
  await rm(fillerPath(), { force: true })
  await engine?.close()
  await run('umount', ['-l', folder])
  await rm(folder, { recursive: true, force: true })
})

function openInput(placement: number): OpenSandboxInput {
  return {
    run: 'disk',
    episode: 'disk/stage/0001/task/00',
    role: 'agent',
    placement,
    image,
    repoDir: '/testbed',
    tools: SMALL_WINDOW,
    limits: LIMITS,
    owner: 'test',
    leaseMs: 120_000,
  }
}

function gradeInput(placement: number, evalScript: string): GradeRunInput {
  return {
    ...openInput(placement),
    role: 'grader',
    patch: new Uint8Array(),
    applyCommands: [],
    timeoutMs: HANG_MS,
    evalScript,
  }
}

const fillerPath = (): string => join(folder, 'filler')

async function fillFromOutside(): Promise<() => Promise<void>> {
  const path = fillerPath()
  const file = await open(path, 'w')
  try {
    for (const size of [1 << 20, 1 << 12]) {
      const block = Buffer.alloc(size)
      try {
        for (;;) await file.write(block)
      } catch (error) {
        assert.equal((error as NodeJS.ErrnoException).code, 'ENOSPC')
      }
    }
  } finally {
    await file.close()
  }
  return () => rm(path)
}

test('an agent that fills the disk ends its turn with a result that says so, and the next turn frees it', {
  skip,
}, async () => {
  const sandbox = await host.open(openInput(1), never)
  const { play } = createPlayer(host, sandbox)
  await play('true')
  const full = await play('echo before; cat /dev/zero > big; echo status $?; exit 7', { timeoutMs: 600_000 })
  assert.deepEqual([full.reason, full.exitCode], ['exit', 7])
  assert.match(full.text, /^before\n[^]*Notice: no space is left on the sandbox's disk/)
  const cleared = await play('rm big; echo cleared')
  assert.deepEqual([cleared.exitCode, cleared.text], [0, 'cleared\n'])
  assert.equal((await play('echo on')).text, 'on\n')
  await host.close(sandbox)
})

test('turns on a full host fail by name after a while, and continue when there is room again', {
  skip,
}, async () => {
  const sandbox = await host.open(openInput(2), never)
  const { next, play } = createPlayer(host, sandbox)
  await play('true')
  const clear = await fillFromOutside()
  let ran = 0
  let refused: unknown = null
  const request = () => next(`echo ${ran} >> /dev/shm/ran; echo ok`)
  let asked = request()
  while (refused === null && ran < 200) {
    try {
      await host.runTurn(sandbox, asked, never)
      ran += 1
      asked = request()
    } catch (error) {
      refused = error
    }
  }
  assert.equal(codeOf(refused), 'Sandbox.OutOfDisk')
  assert.ok(ran >= 4, `${ran} turns`)
  await assert.rejects(host.open(openInput(3), never), (error: unknown) => codeOf(error) === 'Sandbox.OutOfDisk')
  await clear()
  const again = await host.runTurn(sandbox, asked, never)
  assert.equal(Buffer.from(again.head).toString(), 'ok\n')
  const { text } = await play('wc -l < /dev/shm/ran')
  assert.equal(text, `${ran + 1}\n`)
  await host.close(sandbox)
})

// The story: a neighbour filled the host while Git wrote what it captures. The episode had no patch, which counted as its own failure.
test('a capture on a full host fails by name, and has its patch when there is room again', { skip }, async (t) => {
  const sandbox = await host.open(openInput(20), never)
  t.after(() => host.close(sandbox))
  const { play } = createPlayer(host, sandbox)
  await play('echo repaired > m.py; head -c 300000 /dev/urandom > data')
  const capture = () => host.capture(sandbox, { mode: 'all', after: lastTurn(sandbox) }, never)
  const clear = await fillFromOutside()
  await assert.rejects(capture(), { code: 'Sandbox.OutOfDisk' })
  await clear()
  const { patch, failure } = await capture()
  assert.equal(failure, undefined)
  assert.match(Buffer.from(patch).toString(), /^\+repaired$/m)
})

/** Tests that keep writing until there is no room. */
const NEEDS_ROOM = 'while head -c 100000 /dev/zero >> /testbed/data; do sleep 0.2; done; echo "no room"; exit 1'

// The story: a neighbour filled the host while tests ran. They failed, and that counted as the patch's own failure.
test('a grading on a host that others fill fails by name, and has its result when there is room again', {
  skip,
}, async () => {
  const input = gradeInput(30, NEEDS_ROOM)
  const grading = host.grade(input, never)
  grading.catch(() => undefined)
  await untilTrue(async () => {
    const [grader] = await listSandboxes({ engine: engine.engine, run: input.run })
    if (grader === undefined) return false
    const changed = (await engine.engine.docker.getContainer(grader.name).changes()) as { Path: string }[] | null
    return changed?.some(({ Path: path }) => path === '/testbed/data') ?? false
  })
  const clear = await fillFromOutside()
  await assert.rejects(grading, { code: 'Sandbox.OutOfDisk' })
  await clear()
  const evalScript = 'head -c 1000000 /dev/zero > /testbed/data && echo room'
  const { kind, log } = await host.grade({ ...input, evalScript }, never)
  assert.equal(kind, 'ran')
  assert.match(Buffer.from(log).toString(), /^room$/m)
})

// The story: a policy that sees that it has failed fills what its host shares with names or with files that have no name, both of which an
// engine counts as nothing. Its next turn was refused as the host's fault, and the episode was replaced.
const FILLS: [what: string, code: string][] = [
  [
    'files without content',
    'os.mkdir("/tmp/d"); os.chdir("/tmp/d")\nfor i in range(10**9): os.close(os.open(str(i), os.O_CREAT))',
  ],
  [
    'a file without a name',
    'fd = os.open("/tmp/x", os.O_CREAT | os.O_RDWR); os.unlink("/tmp/x")\nwhile True: os.write(fd, bytes(1 << 20))',
  ],
]

for (const [index, [what, code]] of FILLS.entries()) {
  test(`a host that an agent has filled with ${what} is no fault of the host`, { skip }, async (t) => {
    // Room for what no honest work writes.
    await run('mount', ['-o', 'remount,size=1900m', folder])
    // Files of a file system in memory count as the memory of who wrote them.
    const input = { ...openInput(4 + index), limits: { ...LIMITS, memoryMiB: 4096 } }
    const sandbox = await host.open(input, never)
    t.after(() => host.close(sandbox))
    const { play } = createPlayer(host, sandbox)
    const fill = `import os, time\ntry:\n${code.replaceAll(/^/gm, '    ')}\nexcept OSError: pass\ntime.sleep(600)`
    await play(
      `cat > /dev/shm/fill.py <<'EOF'\n${fill}\nEOF\n(sleep 1; exec python3 /dev/shm/fill.py) >/dev/null 2>&1 &`,
    )
    await untilTrue(async () => {
      const { bavail, ffree } = await statfs(folder)
      return Math.min(bavail, ffree) === 0
    })
    let refused: unknown = null
    for (let turns = 0; refused === null && turns < 200; turns += 1) {
      refused = await play('true').then(
        () => null,
        (error: unknown) => error,
      )
    }
    assert.equal(codeOf(refused), 'Sandbox.Ended', String(refused))
  })
}

test('a host that the graded tests have filled themselves is no reason to grade again, also if they delete it at the end', {
  skip,
}, async () => {
  await run('mount', ['-o', 'remount,size=1900m', folder])
  const input = gradeInput(31, 'cat /dev/zero > /testbed/data; sleep 10; rm /testbed/data; exit 1')
  const { kind } = await host.grade({ ...input, limits: { ...LIMITS, memoryMiB: 4096 } }, never)
  assert.equal(kind, 'ran')
})
