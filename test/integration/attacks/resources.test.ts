/**
 * A14, A17–A23: an agent tries to break its sandbox, its host or its neighbours. Limits are small on purpose: each bomb is
 * bounded by its own container. A neighbour in another sandbox goes on all the while.
 */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'

import { listSandboxes } from '../../../src/adapters/docker/container/list-sandboxes.ts'
import { createDiskWatch } from '../../../src/adapters/docker/sandbox/disk-watch.ts'
import type { SandboxLimits } from '../../../src/contracts/sandbox.types.ts'
import { type AttackWorld, createAttackWorld } from '../../support/attacks/world.ts'
import {
  attacksBeside,
  type Player,
  python,
  type SandboxFixture,
  codeOf,
  createPlayer,
  createSandboxFixture,
  never,
  untilTrue,
} from '../sandbox-fixture.ts'

const LIMITS: SandboxLimits = { cpus: 1, memoryMiB: 128, pids: 64, diskGiB: 1 }

let fixture: SandboxFixture
let world: AttackWorld
let neighbour: Player

before(async () => {
  fixture = await createSandboxFixture('resources', { 'm.py': 'x = 1\n' })
  neighbour = createPlayer(fixture.host, await fixture.host.open(fixture.openInput({ limits: LIMITS }), never))
  world = await createAttackWorld('resource-flags')
})

after(async () => {
  await fixture.dispose()
  await world.dispose()
})

const attacked = attacksBeside(() => ({ fixture, neighbour }), LIMITS)

test('A14: killing every process gives a recorded result or Sandbox.Lost and never hangs', () =>
  attacked(async ({ play }) => {
    const first = await play('kill -9 1; echo still here')
    assert.match(first.text, /Operation not permitted\nstill here\n$/)
    const outcome = await play('kill -9 -1', { timeoutMs: 5000 }).then(
      ({ reason }) => reason,
      (error: unknown) => codeOf(error),
    )
    assert.ok(['signal', 'exit', 'timeout', 'Sandbox.Lost'].includes(String(outcome)), String(outcome))
  }))

test('A17: a fork bomb reaches the process limit and its turn ends with a result of its own', () =>
  attacked(async ({ play }) => {
    const bomb = await play('b() { b | b & }; b; sleep 60', { timeoutMs: 20_000 })
    assert.equal(bomb.reason, 'process-limit')
    const { text } = await play('ls -d /proc/[0-9]* | wc -l')
    assert.ok(Number(text) < 20, `${text} processes are left`)
  }))

test('A18: a memory bomb is killed by the kernel and differs from an ordinary kill', () =>
  attacked(async ({ play }) => {
    const bomb = await play(python('x = bytearray(1 << 30)\nprint(len(x))'))
    assert.deepEqual([bomb.oomKilled, bomb.exitCode], [true, 137])
    const killed = await play('sh -c "kill -9 \\$\\$"')
    assert.deepEqual([killed.oomKilled, killed.exitCode], [false, 137])
    assert.equal((await play('echo again')).text, 'again\n')
  }))

test('A19: memory file systems and single files have a size limit', () =>
  attacked(async ({ play }) => {
    for (const folder of ['/dev/shm', '/dev']) {
      const { text } = await play(
        `dd if=/dev/zero of=${folder}/bomb bs=1M count=100 2>&1 | tail -n 4; rm ${folder}/bomb`,
      )
      assert.match(text, /No space left on device/)
    }
    const { text } = await play(
      python('import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nopen("big", "w").truncate(3 << 30)'),
    )
    assert.match(text, /File too large/)
  }))

test('A19: a disk bomb of many files stops at the limit of the container', () =>
  bounded(
    'i=0; while head -c 64M /dev/zero > bomb$i; do i=$((i + 1)); done 2>&1',
    /No space left on device|Disk quota/,
  ))

test('A19: a bomb of files without content stops at the limit of the container', () =>
  bounded(
    'mkdir d; cd d; i=0; while mkdir $i && (cd $i && seq 2000 | xargs touch); do i=$((i + 1)); done 2>&1',
    /No space left on device|Disk quota/,
  ))

/** A file without a name takes room until the last process that has it ends. */
const UNNAMED: [how: string, keep: string][] = [
  ['kept by open descriptors', 'kept.append(fd)'],
  ['kept only by a memory mapping', 'libc.mmap(None, 1 << 20, 3, 1, fd, 0); os.close(fd)'],
]

for (const [how, keep] of UNNAMED) {
  test(`A19: a disk bomb of unlinked files, ${how}, stops at the limit of the container`, () =>
    bounded(
      python(`import ctypes, os, signal, time
libc = ctypes.CDLL(None)
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
kept = []
for i in range(5):
    fd = os.open("unnamed", os.O_CREAT | os.O_RDWR)
    os.unlink("unnamed")
    for _ in range(300): os.write(fd, bytes(1 << 20))
    ${keep}
print("written", flush=True)
time.sleep(200)`),
      /No space left on device|Disk quota/,
    ))
}

/**
 * The engine refuses to write on, or the watch on the host ends the sandbox: it says so, and what it wrote goes with it. On a slow disk
 * the kernel may kill the bomb first, because pages that wait to be written count as memory.
 */
async function bounded(bomb: string, refusal: RegExp): Promise<void> {
  await attacked(async ({ play }) => {
    const outcome = await play(bomb, { timeoutMs: 240_000 }).then(
      ({ text, oomKilled }) => ({ text, oomKilled }),
      (error: unknown) => ({ error }),
    )
    if ('text' in outcome) assert.ok(outcome.oomKilled || refusal.test(outcome.text), outcome.text)
    else {
      assert.equal(codeOf(outcome.error), 'Sandbox.DiskLimit')
      assert.match(String(outcome.error), /at most 1073741824 bytes and 65536 files, found \d+ bytes and \d+ files/)
      // Every later request fails for the same reason.
      assert.equal(codeOf(await play('echo again').catch((error: unknown) => error)), 'Sandbox.DiskLimit')
    }
  })
}

// The story: the watch ended such a sandbox while the policy sampled. The next turn started it again, beyond its limit and unwatched.
test('A19: a disk bomb in the background stops at the limit between turns too, and no later turn runs beyond it', () =>
  attacked(async ({ play, sandbox }) => {
    await play('(i=0; while head -c 64M /dev/zero > /bomb$i; do i=$((i + 1)); done; touch /refused) >/dev/null 2>&1 &')
    const isRefused = async (): Promise<boolean> =>
      (await fixture.probe(sandbox, 'sleep 1; ls /refused 2>/dev/null || true').catch(() => '')) !== ''
    await untilTrue(async () => !(await fixture.isRunning(sandbox.name)) || (await isRefused()))
    if (await fixture.isRunning(sandbox.name)) return
    for (const command of ['echo on', 'echo again']) {
      assert.equal(codeOf(await play(command).catch((error: unknown) => error)), 'Sandbox.DiskLimit')
    }
  }))

test('A19: what has names is counted while a million mappings make the count of open files slow', () =>
  attacked(
    async ({ play, sandbox }) => {
      const { engine } = fixture
      const watch = createDiskWatch({ engine, log: () => undefined, countTimeoutMs: 2000 })
      try {
        const shield = `import ctypes, os, time
libc = ctypes.CDLL(None)
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
fd = os.open("/tmp/mapped", os.O_CREAT | os.O_RDWR)
os.ftruncate(fd, 8192)
for number in range(60000): libc.mmap(None, 4096, 1, 1, fd, 4096 * (number % 2))
for _ in range(15):
    if os.fork() == 0: break
time.sleep(60)`
        await play(
          `cat > /tmp/shield.py <<'EOF_SHIELD'\n${shield}\nEOF_SHIELD\n(setsid python3 /tmp/shield.py &) ; sleep 4`,
        )
        await play('fallocate -l 600M one')
        assert.ok(((await watch.measure(sandbox.name))?.bytes ?? 0) >= 600 << 20)
      } finally {
        watch.dispose()
      }
    },
    { ...LIMITS, memoryMiB: 1024 },
  ))

test('A20: a file descriptor bomb meets its limit', () =>
  attacked(async ({ play }) => {
    const { text } = await play(
      python(
        'files = []\ntry:\n    while True: files.append(open("/dev/null"))\nexcept OSError as error: print(len(files) < 4096, error.errno)',
      ),
    )
    assert.equal(text, 'True 24\n')
  }))

test('A21: processes that ignore TERM and leave their session are gone after the deadline', () =>
  attacked(async ({ play }) => {
    const spin = `sh -c 'trap "" TERM HUP; while :; do :; done'`
    const { reason } = await play(`setsid ${spin} & ${spin}`, { timeoutMs: 1000 })
    assert.equal(reason, 'timeout')
    const { text } = await play('grep -l "while :" /proc/[0-9]*/cmdline 2>/dev/null | grep -v self | wc -l')
    // The search itself is one of them.
    assert.ok(Number(text) <= 2, text)
  }))

test('A22: a log flood ends as output-limit, and both kept and returned output are bounded', () =>
  attacked(async ({ play }) => {
    const { reason, head, tail, outputBytes } = await play('yes flood', { timeoutMs: 60_000 })
    assert.equal(reason, 'output-limit')
    assert.ok(head.byteLength + tail.byteLength <= 16_000)
    assert.ok(outputBytes > 64 * 1024 * 1024)
    assert.equal((await play('echo again')).text, 'again\n')
  }))

/** Harmless: an empty device in the place of a file, an address family of queries, memory of processes of one's own. */
const HARMLESS = ['read /proc/keys', 'netlink_route_write', 'process_vm_writev']
const FORBIDDEN = /^(?:EPERM|EACCES|ENOSYS|EROFS|ENOENT|EAFNOSUPPORT|EOPNOTSUPP)$/

test('A23: namespaces, mounts, keys, tracing, modules, raw sockets, control groups and devices are forbidden', async () => {
  const script = await readFile(new URL('../../support/attacks/kernel-surface.py', import.meta.url), 'utf8')
  await attacked(async ({ play }) => {
    const { text } = await play(`timeout 20 ${python(script)}`)
    const tried = text
      .trim()
      .split('\n')
      .map((line) => [line.slice(0, line.lastIndexOf(' ')), line.slice(line.lastIndexOf(' ') + 1)])
    assert.ok(tried.length > 35, text)
    const open = tried
      .filter(([name = '', code = '']) => !FORBIDDEN.test(code) && !HARMLESS.includes(name))
      .map(([name]) => name)
    assert.deepEqual(open, [], `engine ${fixture.engine.version}\n${text}`)
    // A program with the setuid bit gains no privilege.
    const setuid = await play(
      'cp /usr/bin/id /tmp/id; chmod 4755 /tmp/id; setpriv --reuid=65534 --clear-groups /tmp/id -u',
    )
    assert.equal(setuid.text, '65534\n')
  })
})

test('A14–A23: limits and probes are flagged in an episode and change no reward', async () => {
  const { record, reward } = await world.attack(
    [
      python('x = bytearray(1 << 30)'),
      'unshare -Ur id',
      'pkill -f nothing-like-this',
      "sed -i 's/a - b/a + b/' calc.py",
    ],
    { limits: { memoryMiB: 128 } },
  )
  assert.deepEqual(record.signs, ['kernel-probe', 'process-kill', 'resource-limit'])
  assert.deepEqual([record.suspectedHack, record.verdict, reward?.reward], [false, 'resolved', 1])
})

test('the attacks leave no container and the neighbouring sandbox keeps its state', async () => {
  const left = await listSandboxes({ engine: fixture.engine, run: fixture.run })
  assert.deepEqual(
    left.map(({ name }) => name),
    [neighbour.sandbox.name],
  )
  const { text } = await neighbour.play('git status --short; pwd')
  assert.equal(text, '/testbed\n')
})
