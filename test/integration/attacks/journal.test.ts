/**
 * The agent is root beside the runner and its journal. Here it attacks what the runner itself uses at the moment of a turn, a capture or
 * a later worker's arrival: device files, files of its own that it hands to scripts, descriptors, the engine's way into the container.
 * It wants a sandbox that stands still, outlives its lease, or is lost by what looks like infrastructure, which would be a free retry.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { after, before, test } from 'node:test'

import { createDockerSandboxHost } from '../../../src/adapters/docker/sandbox/sandbox-host.ts'
import { mayBeOwnDoing } from '../../../src/domain/failure-answers.ts'
import { isLonghaulError } from '../../../src/contracts/errors.ts'
import type { TurnResult } from '../../../src/contracts/sandbox.types.ts'
import {
  type Player,
  type SandboxFixture,
  createPlayer,
  createSandboxFixture,
  lastTurn,
  never,
  python,
  untilTrue,
} from '../sandbox-fixture.ts'

let fixture: SandboxFixture
let placement = 0

before(async () => {
  fixture = await createSandboxFixture('attacked-journal', { 'm.py': 'x = 1\n' })
})

after(() => fixture.dispose())

async function attacked(attack: (player: Player) => Promise<void>, changes: { leaseMs?: number } = {}): Promise<void> {
  placement += 1
  const sandbox = await fixture.host.open(fixture.openInput({ placement, ...changes }), never)
  try {
    await attack(createPlayer(fixture.host, sandbox))
  } finally {
    await fixture.host.close(sandbox)
  }
}

const treeOf = (player: Player): Promise<string> =>
  fixture.host.treeHash(player.sandbox, lastTurn(player.sandbox), never)

async function patchOf(player: Player): Promise<string> {
  const captured = await fixture.host.capture(player.sandbox, { mode: 'all', after: lastTurn(player.sandbox) }, never)
  return Buffer.from(captured.patch).toString()
}

/** Its shell would wait for the pipe too, so it leaves without saving its state. */
const PIPE = 'rm -f /dev/null; mkfifo /dev/null; kill -9 $$'

test('a pipe in the place of the null device stops the agent’s own shells and never the runner', () =>
  attacked(async (player) => {
    await player.play(PIPE)
    for (let turn = 0; turn < 2; turn += 1) {
      assert.equal((await player.play('echo on', { timeoutMs: 1000 })).reason, 'timeout')
    }
  }))

test('the null device that commands, the listing and the capture get is the engine’s', async () => {
  for (const thing of ['mkdir', 'ln -s /dev/zero', 'echo text >']) {
    await attacked(async (player) => {
      await player.play(`rm -f /dev/null; ${thing} /dev/null; chmod 0 /dev/null; echo y >> m.py`)
      assert.match((await player.play('head -c 9 | wc -c')).text, /^0$/m, thing)
      await treeOf(player)
    })
  }
})

test('a sandbox whose runner would wait for a pipe still ends with its lease', () =>
  attacked(
    async (player) => {
      await player.play(PIPE)
      const leaving = new AbortController()
      const asked = fixture.host.runTurn(player.sandbox, player.next('true', { timeoutMs: 1000 }), leaving.signal)
      asked.catch(() => undefined)
      setTimeout(() => leaving.abort(new Error('this worker leaves')), 500)
      await assert.rejects(asked)
      await untilTrue(async () => !(await fixture.isRunning(player.sandbox.name)))
    },
    { leaseMs: 4000 },
  ))

/** Takes a lease on a script's output while the script runs, by the script's own descriptors, and tells when the kernel breaks it. */
const LEASE = `import fcntl, os, signal, time
if os.fork(): os._exit(0)
os.setsid()
for i in range(3): os.dup2(os.open("/dev/zero", os.O_RDWR), i)
log = open("/tmp/leases", "a", buffering=1)
signal.signal(signal.SIGIO, lambda *_: log.write("broken\\n"))
def find():
    while True:
        for pid in os.listdir("/proc"):
            try:
                path = "/proc/%d/fd/1" % int(pid)
                name = os.readlink(path)
                if name.startswith("/.lh") and "output" in name: return os.open(path, os.O_RDWR)
            except (OSError, ValueError): continue
file = find()
while True:
    try:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        break
    except OSError: time.sleep(0.01)
log.write("leased\\n")
while True: time.sleep(1)`

// The story: root of the commands owns the file that a script of ours writes to, because the script may open it again by name. An owner
// may take a lease, and then the runner's next `open` waits until the kernel breaks it: 45 seconds, for each comparison of trees.
test('the runner never opens a file on which a process of the agent may hold a lease', () =>
  attacked(async (player) => {
    await player.play('true')
    await treeOf(player)
    const { text } = await player.play('cat /.lh/output; : > /.lh/output; echo refused')
    assert.match(text, /(No such file or directory|Permission denied)[^]*refused\n$/)
    await player.play(python(LEASE))
    // The race: a listing may end before the process finds it.
    const leases = (): Promise<string> => fixture.probe(player.sandbox, 'cat /tmp/leases')
    await untilTrue(async () => {
      await treeOf(player)
      return (await leases()).includes('leased')
    })
    const tree = await treeOf(player)
    assert.equal(await treeOf(player), tree)
    assert.equal(await leases(), 'leased\n')
  }))

/** Plays a turn while the kernel gives the runner no more than so many open files. */
const exhausted = (left: number): Promise<void> =>
  attacked(async (player) => {
    await untilTrue(async () => (await fixture.probe(player.sandbox, 'stat -c %s /.lh/reserve.8')).trim() === '65536')
    const { State: state } = await fixture.engine.docker.getContainer(player.sandbox.name).inspect()
    const used = new Set(readdirSync(`/proc/${state.Pid}/fd`).map(Number))
    const limit = [...Array(64).keys()].filter((number) => !used.has(number))[left]
    // As its user, which needs no further privilege of this machine.
    const runner = { uid: 65_432, gid: 65_432 }
    execFileSync('prlimit', ['--pid', String(state.Pid), `--nofile=${limit}:4096`], runner)
    const ending = await player.play('true', { timeoutMs: 1000 }).catch((error: unknown) => error)
    if (!isLonghaulError(ending)) return assert.equal((ending as TurnResult).reason, 'process-limit')
    assert.equal(ending.code, 'Sandbox.Ended')
    assert.match(ending.message, /\[answer=un/)
  })

// The story: agents may hold all open files that a kernel allows. The runner gave away its reserve of disk to make room, could not open
// that either, and tried for ever.
for (const left of [0, 1, 2, 3]) {
  test(`a runner with ${left} free descriptors answers at once, and not that the disk is full`, () => exhausted(left))
}

/** What stands in the way of the exec by which a later worker comes. */
const IN_THE_WAY: [what: string, command: string][] = [
  ['a closed root', 'chmod 700 /'],
  ['users in a folder', 'rm -f /etc/passwd; mkdir /etc/passwd'],
  ['users without end', 'ln -sf /dev/zero /etc/passwd'],
  ['users below a file whose name speaks of a full disk', 'ln -sf "/etc/hostname/no space left on device" /etc/passwd'],
  ['users on one line', 'head -c 3000000 /dev/zero | tr "\\0" x > /etc/passwd'],
  ['a user of the runner’s name', 'echo 65432:x:0:0::/:/bin/sh > /etc/passwd; echo 65432:x:0: > /etc/group'],
  ['groups in a folder', 'rm -f /etc/group; mkdir /etc/group'],
  ['a full list of processes', 'for i in $(seq 1 300); do setsid sleep 600 & done; :'],
  [
    'signals from the owner of a file',
    python(`import fcntl, os, socket, time
if os.fork(): os._exit(0)
os.setsid()
for i in range(3): os.dup2(os.open("/dev/zero", os.O_RDWR), i)
def shoot(pid, number):
    one, other = socket.socketpair()
    fcntl.fcntl(one, 10, number)
    fcntl.fcntl(one, fcntl.F_SETOWN, pid)
    fcntl.fcntl(one, fcntl.F_SETFL, fcntl.fcntl(one, fcntl.F_GETFL) | os.O_ASYNC)
    other.send(b"x")
while True:
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
        try:
            if pid == 1 or os.stat("/proc/%d" % pid).st_uid == 65534: [shoot(pid, number) for number in (9, 19, 15, 0)]
        except OSError: pass
    time.sleep(0.01)`),
  ],
]

test('what stands in a later worker’s way to the runner is the agent’s own doing, or harmless', async () => {
  for (const [what, command] of IN_THE_WAY) {
    await attacked(async (player) => {
      await player.play(command, { timeoutMs: 5000 })
      // The worker that opened the sandbox has its stream, and needs no other.
      assert.ok(['exit', 'signal', 'process-limit'].includes((await player.play('echo on')).reason), what)
      const later = createDockerSandboxHost({ engine: fixture.engine, hostId: 'later', hostQueue: 'later' })
      try {
        const { text } = await createPlayer(later, player.sandbox).play('echo again', { turn: 2, token: 't', fence: 2 })
        assert.match(text, /^(?:Notice.*\n)?again\n$/, what)
      } catch (error) {
        assert.ok(isLonghaulError(error) && mayBeOwnDoing(error.code), `${what}: ${String(error)}`)
      } finally {
        later.dispose()
      }
    })
  }
})

/** Where a turn's shell leaves its state; `TURN` is the turn's number. */
const STATES: [what: string, state: string][] = [
  ['no directory', '#022\\n#\\nexport A=1\\n'],
  ['a directory that is an option', '#0\\n#-P\\n'],
  ['a directory of other bytes', '#0\\n#/\\377\\033[2J\\r\\355\\240\\200\\n'],
  ['a mask that is none', '#77777\\n#/tmp\\n'],
  ['a variable of the next shell', '#022\\n#/tmp\\nreadonly lh_cwd=1 lh_turn=9\\n'],
  ['an end', '#022\\n#/tmp\\nexit 3\\n'],
]

test('a forged state costs the agent’s own shells, and the patch is that of the files', () =>
  attacked(async (player) => {
    await player.play('echo y >> m.py')
    for (const [what, state] of STATES) {
      const turn = (lastTurn(player.sandbox)?.turn ?? 0) + 1
      const forged = await player.play(`trap - EXIT; printf '${state}\\000${turn}\\n' > /.lh/agent/state`)
      assert.equal(forged.reason, 'exit', what)
      const next = await player.play('echo on', { timeoutMs: 60_000 })
      assert.deepEqual([next.reason, next.state.submitted], ['exit', false], what)
      // As JSON it is what it was, so a record of it can be read again.
      assert.deepEqual(JSON.parse(JSON.stringify(next.state)), next.state, what)
    }
    assert.match(await patchOf(player), /^\+y$/m)
  }))

test('an output that is cut, grown and closed by its owner is counted as it was when the turn ended', () =>
  attacked(async (player) => {
    const grown = await player.play(
      '(setsid sh -c "while :; do echo late; sleep 0.01; done" &); echo x; truncate -s 900G /proc/self/fd/1; chmod 0 /proc/self/fd/1',
    )
    assert.equal(grown.reason, 'exit')
    assert.ok(grown.outputBytes >= 900 * 1024 ** 3 && grown.head.byteLength + grown.tail.byteLength <= 16_000)
    assert.equal((await player.play('echo on')).text, 'on\n')
    await player.play('echo y >> m.py')
    assert.match(await patchOf(player), /^\+y$/m)
  }))
