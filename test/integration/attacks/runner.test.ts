/**
 * The agent is root in its sandbox and wants to be its runner: to end, stop, slow or read it, to write its journal, to answer in its
 * place, to keep the sandbox alive. Each attack runs as a turn; afterwards the next turns must come from the real runner, on the
 * stream that it had.
 */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'

import { createDockerSandboxHost } from '../../../src/adapters/docker/sandbox/sandbox-host.ts'
import {
  type Player,
  type SandboxFixture,
  codeOf,
  createPlayer,
  createSandboxFixture,
  lastTurn,
  never,
  untilTrue,
  python,
} from '../sandbox-fixture.ts'
import { eventually } from '../../support/hang.ts'

let fixture: SandboxFixture
let placement = 0

before(async () => {
  fixture = await createSandboxFixture('runner', { 'm.py': 'x = 1\n' })
})

after(() => fixture.dispose())

async function open(changes: { leaseMs?: number } = {}): Promise<Player> {
  placement += 1
  return createPlayer(fixture.host, await fixture.host.open(fixture.openInput({ placement, ...changes }), never))
}

/** A sandbox of its own for each attack. */
async function attacked(attack: (player: Player) => Promise<void>): Promise<void> {
  const player = await open()
  try {
    await player.play('echo kept > /tmp/kept; export KEPT=1; cd /tmp')
    await attack(player)
    assert.equal(await goesOn(player), 'kept 1 /tmp\n')
  } finally {
    await fixture.host.close(player.sandbox)
  }
}

/** State and files are there, the answer is right, and the host opened no second stream. */
async function goesOn(player: Player): Promise<string> {
  const { text, reason, exitCode } = await player.play('echo "$(cat /tmp/kept) $KEPT $(pwd)"; exit 7')
  assert.deepEqual([reason, exitCode], ['exit', 7])
  const { ExecIDs: execs } = await fixture.engine.docker.getContainer(player.sandbox.name).inspect()
  assert.deepEqual(execs ?? [], [], 'another stream was opened')
  return text
}

const EVERY_SIGNAL = `import os
for pid in [1] + [int(p) for p in os.listdir("/proc") if p.isdigit() and int(p) not in (os.getpid(), os.getppid())]:
    for signal in list(range(1, 65)):
        try: os.kill(pid, signal)
        except OSError: pass
print("sent")`

test('survives every signal sent to each process, and KILL, STOP and TERM sent to all', () =>
  attacked(async ({ play }) => {
    assert.equal((await play(python(EVERY_SIGNAL))).text, 'sent\n')
    for (const signal of ['KILL', 'STOP', 'TERM']) {
      const { reason } = await play(`kill -${signal} -1; kill -${signal} 1; kill -${signal} $PPID`, { timeoutMs: 3000 })
      assert.ok(['exit', 'signal', 'timeout'].includes(reason), reason)
    }
    const queued = await play(
      python(`import ctypes
libc = ctypes.CDLL(None, use_errno=True)
info = ctypes.create_string_buffer(128)
info[8:12] = (-1).to_bytes(4, "little", signed=True)
for call, args in ((129, (1, 9, info)), (297, (1, 1, 9, info)), (234, (1, 1, 9)), (200, (1, 9))):
    print(libc.syscall(call, *args))
fd = libc.syscall(434, 1, 0)
print(libc.syscall(424, fd, 9, None, 0) if fd >= 0 else -1)`),
    )
    assert.equal(queued.text, '-1\n-1\n-1\n-1\n-1\n')
  }))

test('denies tracing, memory, descriptors and settings of the first process and of all others except its own', () =>
  attacked(async ({ play }) => {
    const { text } = await play(
      python(`import ctypes, os, resource
libc = ctypes.CDLL(None, use_errno=True)
def tried(name, call):
    try: result = call()
    except OSError as error: result = None
    if result not in (None, -1): print(name, "worked:", result)
buffer = ctypes.create_string_buffer(64)
class Vec(ctypes.Structure): _fields_ = [("at", ctypes.c_void_p), ("size", ctypes.c_size_t)]
local, remote = Vec(ctypes.addressof(buffer), 8), Vec(0x400000, 8)
for name, request in (("attach", 16), ("seize", 0x4206), ("peek", 1), ("kill", 8)):
    tried(name, lambda: libc.ptrace(request, 1, 0, 0))
tried("read", lambda: libc.process_vm_readv(1, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0))
tried("write", lambda: libc.process_vm_writev(1, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0))
pidfd = libc.syscall(434, 1, 0)
for number in range(4): tried("getfd", lambda: libc.syscall(438, pidfd, number, 0))
tried("madvise", lambda: libc.syscall(440, pidfd, ctypes.byref(remote), 1, 21, 0))
for name in ("mem", "environ", "maps", "pagemap", "auxv", "syscall", "stack", "personality", "io"):
    tried(name, lambda: os.read(os.open("/proc/1/" + name, os.O_RDONLY), 1) or None)
for name in ("mem", "clear_refs", "oom_score_adj", "oom_adj", "coredump_filter", "timerslack_ns", "autogroup", "sched", "comm",
             "uid_map", "gid_map", "setgroups", "attr/current", "loginuid", "make-it-fail"):
    tried(name, lambda: os.write(os.open("/proc/1/" + name, os.O_WRONLY), b"1"))
for name in ("fd", "map_files", "fdinfo"): tried(name, lambda: os.listdir("/proc/1/" + name))
for name in ("exe", "cwd", "root", "fd/0", "fd/1", "ns/user", "ns/pid", "ns/mnt"): tried(name, lambda: os.readlink("/proc/1/" + name))
for limit in range(16):
    tried("limit %d" % limit, lambda: resource.prlimit(1, limit, (1, 1)) and None)
    tried("limit %d" % limit, lambda: libc.syscall(302, 1, limit, (ctypes.c_long * 2)(1, 1), None))
tried("nice", lambda: libc.setpriority(0, 1, 19))
tried("nice of its user", lambda: libc.setpriority(2, 65432, 19))
tried("affinity", lambda: os.sched_setaffinity(1, {0}) or 0)
tried("scheduler", lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)) or 0)
tried("io", lambda: libc.syscall(251, 1, 1, 3 << 13))
tried("group", lambda: libc.setpgid(1, 0))
tried("pages", lambda: libc.syscall(256, 1, 64, (ctypes.c_ulong * 1)(1), (ctypes.c_ulong * 1)(1)))
print("end")`),
    )
    assert.equal(text, 'end\n')
  }))

test("cannot become the runner's user or hand files, programs and processes to it", () =>
  attacked(async ({ play }) => {
    const { text } = await play(
      python(`import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
R = 65432
def tried(name, call):
    try: result = call()
    except (OSError, OverflowError): result = -1
    if result not in (None, -1): print(name, "worked:", result)
for name in ("setuid", "setgid", "seteuid", "setegid"): tried(name, lambda: getattr(os, name)(R) or 0)
for name in ("setreuid", "setregid"): tried(name, lambda: getattr(os, name)(R, R) or 0)
for name in ("setresuid", "setresgid"): tried(name, lambda: getattr(os, name)(R, R, R) or 0)
libc.setfsuid(R); print(libc.setfsuid(-1))
tried("groups", lambda: os.setgroups([R]) or 0)
open("/tmp/f", "w").close()
for uid, gid in ((R, 0), (0, R)): tried("chown", lambda: os.chown("/tmp/f", uid, gid) or 0)
for flags in (0x10000000, 0x20000000, 0x00020000, 0x10020000, 0x02000000, 0x40000000, 0x04000000, 0x08000000, 0x80):
    tried("unshare %x" % flags, lambda: libc.unshare(flags))
for kind, flag in (("user", 0x10000000), ("user", 0), ("mnt", 0), ("pid", 0), ("net", 0)):
    for pid in ("1", "self"):
        try: fd = os.open("/proc/%s/ns/%s" % (pid, kind), os.O_RDONLY)
        except OSError: continue
        tried("setns " + kind, lambda: libc.setns(fd, flag))
tried("setns pidfd", lambda: libc.setns(libc.syscall(434, 1, 0), 0x10000000))
tried("clone", lambda: libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0))
tried("clone3", lambda: libc.syscall(435, (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17), 88))
print("end")`),
    )
    assert.equal(text, '0\nend\n')
    const map = await play('cat /proc/self/uid_map /proc/self/gid_map; cat > /proc/self/uid_map < /proc/self/gid_map')
    assert.doesNotMatch(map.text, /^ *65432 /m)
    assert.match(map.text, /Operation not permitted|write error/)
    const thirtyTwoBits = await play(
      python(`import ctypes, mmap
# int 0x80: the calls of 32-bit programs are another table
code = mmap.mmap(-1, 4096, prot=7)
code.write(bytes.fromhex("53b8360100004889fbcd805bc3"))
call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
print(call(0x10000000), call(0x00020000))`),
    )
    assert.equal(thirtyTwoBits.text, '-1 -1\n')
  }))

/** Writes what the old journal believed, wherever it may lie. */
const FORGE = `for d in /.lh /.lh/turns; do
  for f in fence lease world ready state.start state.current reserve.1; do echo "99999 ." > $d/$f; done
done
for t in 0 1 2 3 4 5 6 7 8 9; do
  for k in token$t guess; do printf '0 exit 2 1 0 0 1 0 2 0\\n\\n.\\n' > /.lh/turns/$t.$k.done; printf ok > /.lh/turns/$t.$k.out; done
  echo "x guess 1 1 ." > /.lh/turns/$t
done`

test('cannot write, truncate, remove, link, rename or mount over the journal, fence, world and lease', () =>
  attacked(async ({ play }) => {
    await play(FORGE)
    await play(
      'rm -rf /.lh/turns /.lh/world /.lh/fence; : > /.lh/world; truncate -s 0 /.lh/turns/0; chmod -R 777 /.lh; chown -R 0 /.lh',
    )
    await play(
      'ln -f /.lh/world /tmp/world; ln -s /.lh/fence /.lh/agent/state.tool; mount --bind /tmp /.lh; mount -t tmpfs none /.lh/turns',
    )
    await play('rm -f /.lh/agent/state.tool; setfacl -m u:0:rwx /.lh; chattr -i /.lh; mv /.lh/turns /tmp/')
    const { text } = await play('ls /.lh/turns /.lh 2>/dev/null | wc -l; cat /.lh/world')
    assert.match(text, /^0\n[^]*Permission denied\n$/)
  }))

test('ignores a forged folder in the place of the journal', () =>
  attacked(async ({ play }) => {
    await play(`mv /.lh /.other; mkdir -p /.lh/turns /.lh/agent; ${FORGE}`)
    // Its own tools are gone with the folder, and that is all.
    const { state, text } = await play('echo real')
    assert.equal(text.split('\n').at(-2), 'real')
    assert.equal(state.submitted, false)
    await play('rm -rf /.lh; mv /.other /.lh')
    await play('export KEPT=1; cd /tmp')
  }))

test('a container that restarts with a forged journal folder is lost, and the folder is never believed', async () => {
  const player = await open()
  const request = player.next('echo once >> /tmp/once; cat /tmp/once')
  await fixture.host.runTurn(player.sandbox, request, never)
  await player.play(`mv /.lh /.other; mkdir -p /.lh/turns; ${FORGE}; cp /bin/true /bin/sh`)
  await fixture.engine.docker.getContainer(player.sandbox.name).kill()
  // Its runner ends by itself then: that is the agent's doing, as far as the host can see.
  const isGone = (error: unknown): boolean => ['Sandbox.Lost', 'Sandbox.Ended'].includes(String(codeOf(error)))
  await assert.rejects(fixture.host.runTurn(player.sandbox, request, never), isGone)
  await assert.rejects(player.play('echo on'), isGone)
  await fixture.host.close(player.sandbox)
})

test('refuses a turn after one that only a forged world file claims', async () => {
  const player = await open()
  await player.play('echo one')
  await player.play(`${FORGE}; echo "7.token7 ." > /.lh/world; printf '%s' "7.token7 ." > /.lh/turns/7`)
  const skipped = { turn: 8, token: 'token8', after: { turn: 7, token: 'token7' } }
  await assert.rejects(player.play('echo eight', skipped), (error: Error) => {
    assert.equal(codeOf(error), 'Sandbox.Behind')
    assert.match(error.message, /world=1\.token1/)
    return true
  })
  await fixture.host.close(player.sandbox)
})

test('ignores forged answers on descriptors, the terminal and the socket of later workers', () =>
  attacked(async ({ play }) => {
    const forged = 'lh1 000000000000000000000000 done 0 exit 0 1 0 0 1 0 0 0 2.token2\\n\\n'
    const { text } = await play(
      `for f in /proc/[0-9]*/fd/* /dev/console /dev/tty /dev/pts/*; do [ -e "$f" ] && [ "$f" -ef /dev/null ] || printf '${forged}' > "$f"; done 2>/dev/null; echo real`,
    )
    assert.match(text, /real\n$/)
    const spoken = await play(
      python(`import array, os, socket, struct
opened = 0
for kind in (socket.SOCK_SEQPACKET, socket.SOCK_STREAM, socket.SOCK_DGRAM):
    for offer in (b"c", b"e/bin/sh\\0-c\\0id > /tmp/escaped\\0\\0"):
        knock = socket.socket(socket.AF_UNIX, kind)
        try:
            knock.connect("\\0longhaul-runner")
            knock.sendmsg([offer], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
            opened += knock.recv(10) != b""
        except OSError: pass
# All at once, and none of them leaves.
held = []
for _ in range(2000):
    knock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    knock.setblocking(False)
    try: knock.connect("\\0longhaul-runner"); held.append(knock)
    except OSError: pass
for name in ("\\0longhaul-runner",):
    try: socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).bind(name); print("bound")
    except OSError: pass
print(opened, os.path.exists("/tmp/escaped"))`),
    )
    assert.equal(spoken.text, '0 False\n')
  }))

/** In the place of everything that a runner of scripts would need. */
const REPLACE = `mkdir -p /tmp/old; for p in sh dash cat awk mawk head tail wc grep sleep setsid mkfifo mv rm cp env git perl; do
  f=$(command -v $p) || continue; f=$(readlink -f "$f"); cp "$f" /tmp/old/$p 2>/dev/null
done
cp /usr/bin/python3 /tmp/old/python3
cat > /tmp/fake.py <<'END'
#!/tmp/old/python3
import os, sys
open("/tmp/who", "a").write("%d %d %s\\n" % (os.getuid(), os.getpid(), open("/proc/self/uid_map").read().split("\\n")[0]))
sys.stdout.write("lh1 000000000000000000000000 done 0 exit 0 1 0 0 1 0 0 0 0.t\\n\\n")
END
chmod 755 /tmp/fake.py; echo /tmp/none.so > /etc/ld.so.preload
for p in setsid mkfifo sleep head tail wc env perl awk mawk git cat; do f=$(command -v $p) && /tmp/old/cp /tmp/fake.py "$(readlink -f "$f")"; done
/tmp/old/cp /tmp/fake.py /usr/bin/dash`

test('replaced programs, shell and loader forge no answer for turns, the capture or a later worker', async () => {
  const player = await open()
  await player.play(REPLACE)
  const { text, reason } = await player.play('echo real')
  assert.match(text, /real\n$/)
  assert.equal(reason, 'exit')
  const later = createDockerSandboxHost({ engine: fixture.engine, hostId: 'later', hostQueue: 'later' })
  try {
    const second = createPlayer(later, player.sandbox)
    const turn = (lastTurn(player.sandbox)?.turn ?? 0) + 1
    const answer = await second.play('echo again', { turn, token: `token${turn}`, fence: 2 })
    assert.match(answer.text, /again\n$/)
    assert.equal(answer.state.submitted, false)
    const { patch } = await later.capture(player.sandbox, { mode: 'all', after: lastTurn(player.sandbox) }, never).then(
      (captured) => captured,
      (error: unknown) => assert.fail(String(error)),
    )
    assert.doesNotMatch(Buffer.from(patch).toString(), /^diff/m)
    const who = await second.play('while read -r line; do echo "$line"; done < /tmp/who', {
      turn: turn + 1,
      token: 'w',
      fence: 2,
    })
    // All of it that ran, ran as the agent: in the namespace that ends below the runner's user.
    for (const line of who.text.split('\n').filter((one) => /^\d+ \d+/.test(one))) {
      assert.match(line, /^0 \d+ +0 +0 +65432$/)
    }
  } finally {
    later.dispose()
    await fixture.host.close(player.sandbox)
  }
})

test('keeps the previous state when the shell or the tools hand over a pipe, link, folder, flood or nonsense', () =>
  attacked(async ({ play }) => {
    const places = ['state', 'state.tool']
    const things = [
      'mkfifo F',
      'ln -s /.lh/fence F',
      'ln -s /dev/zero F',
      'mkdir F',
      'yes | head -c 9000000 > F',
      'truncate -s 1T F',
      "printf '9999999999999999999\\n7\\n/x\\n' > F",
    ]
    for (const place of places) {
      for (const thing of things) {
        const file = `/.lh/agent/${place}`
        const { state, reason } = await play(
          `rm -rf ${file}; ${thing.replace('F', file)} 2>/dev/null; trap - EXIT; cd /usr; true`,
        )
        assert.deepEqual([reason, state.cwd, state.submitted, state.openFile], ['exit', '/tmp', false, null], thing)
        await play(`rm -rf ${file}`)
      }
    }
    await play('cd /tmp; export KEPT=1')
  }))

test('turns end in time during a storm of forks, stops and kills, and the next turn runs after the sweep', () =>
  attacked(async ({ play, sandbox }) => {
    const storm = `import os, time
for _ in range(40):
    if os.fork() == 0:
        os.setsid()
        end = time.time() + 60
        while time.time() < end:
            for pid in [int(p) for p in os.listdir("/proc") if p.isdigit()]:
                for signal in (19, 18, 20, 15):
                    if pid != os.getpid():
                        try: os.kill(pid, signal)
                        except OSError: pass
        os._exit(0)
time.sleep(60)`
    for (const command of [python(storm), 'b() { b | b & }; b; while :; do b; done']) {
      const { reason } = await play(command, { timeoutMs: 2000 })
      // It may end its own turn as well.
      assert.ok(['timeout', 'signal', 'process-limit', 'exit'].includes(reason), reason)
    }
    // What goes on in the background may end the agent's own turns, until it is swept away.
    await fixture.host.capture(sandbox, { mode: 'all', after: lastTurn(sandbox) }, never)
  }))

test('a background storm has ended when the patch is captured', async () => {
  const player = await open()
  await player.play(
    `(setsid env -i LH_TURN=-99- sh -c 'while :; do echo y >> /testbed/m.py; kill -STOP -1; sleep 0.001 & done' &) ; echo started`,
  )
  const first = await fixture.host.capture(player.sandbox, { mode: 'all', after: lastTurn(player.sandbox) }, never)
  const second = await fixture.host.capture(player.sandbox, { mode: 'all', after: lastTurn(player.sandbox) }, never)
  assert.deepEqual(Buffer.from(second.patch), Buffer.from(first.patch))
  await fixture.host.close(player.sandbox)
})

/** Its first thread ends and the second goes on, so that the kernel calls the process a zombie. */
const HEADLESS = `import ctypes, threading, time
def edit():
    while True:
        with open("/testbed/m.py", "a") as file: file.write("# edited\\n")
        time.sleep(0.01)
threading.Thread(target=edit).start()
ctypes.CDLL(None).syscall(60, 0)`

test('a process whose first thread has ended is ended with its turn and before the capture', async () => {
  const player = await open()
  const edits = async (): Promise<string> =>
    fixture.probe(player.sandbox, 'wc -l < /testbed/m.py; sleep 0.5; wc -l < /testbed/m.py')
  const isStill = (text: string): boolean => new Set(text.trim().split('\n')).size === 1
  await player.play(`cat > /tmp/headless.py <<'EOF'\n${HEADLESS}\nEOF`)
  const { reason } = await player.play('setsid python3 /tmp/headless.py & sleep 60', { timeoutMs: 5000 })
  assert.equal(reason, 'timeout')
  const after = await edits()
  assert.ok(isStill(after) && Number.parseInt(after) > 1, `after the turn: ${after}`)
  await player.play('(setsid python3 /tmp/headless.py >/dev/null 2>&1 &)')
  await eventually(async () => {
    assert.ok(!isStill(await edits()), 'it does not edit')
  })
  await fixture.host.capture(player.sandbox, { mode: 'all', after: lastTurn(player.sandbox) }, never)
  const captured = await edits()
  assert.ok(isStill(captured), `after the capture: ${captured}`)
  await fixture.host.close(player.sandbox)
})

/** Each edits when something else happens: a look at the repository, a timer, a signal from another one. */
const WAITING = `import ctypes, os, signal, time
os.setsid()
libc = ctypes.CDLL(None)
def edit(*_):
    with open("/testbed/m.py", "a") as file: file.write("# edited\\n")
def start(work):
    pid = os.fork()
    if pid == 0:
        while True: work()
    return pid
watcher = libc.inotify_init()
for folder in ("/testbed", "/testbed/.git", "/.lh/agent"): libc.inotify_add_watch(watcher, folder.encode(), 0x21)
def watch():
    os.read(watcher, 65536)
    edit()
def tick():
    signal.signal(signal.SIGALRM, edit)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    signal.pause()
def stop():
    os.kill(os.getpid(), signal.SIGSTOP)
    edit()
start(watch); start(tick)
stopped = start(stop)
def go_on():
    time.sleep(0.1)
    os.kill(stopped, signal.SIGCONT)
start(go_on)`

test('what waits for the capture to edit has ended before it: watchers, timers and stopped processes', async () => {
  const player = await open()
  const lines = async (): Promise<number> => Number(await fixture.probe(player.sandbox, 'wc -l < /testbed/m.py'))
  const capture = async (): Promise<string> => {
    const { patch } = await fixture.host.capture(
      player.sandbox,
      { mode: 'all', after: lastTurn(player.sandbox) },
      never,
    )
    return Buffer.from(patch).toString()
  }
  await player.play(`cat > /tmp/waiting.py <<'EOF'\n${WAITING}\nEOF\npython3 /tmp/waiting.py >/dev/null 2>&1 &`)
  await eventually(async () => {
    assert.ok((await lines()) > 5, 'they do not edit')
  })
  const first = await capture()
  const edited = await lines()
  assert.equal(first.match(/^\+# edited$/gm)?.length, edited - 1)
  await sleep(1500)
  assert.equal(await capture(), first)
  assert.equal(await lines(), edited)
  await fixture.host.close(player.sandbox)
})

/** As the audit ends what its tests have left: all that it finds, one by one, until it finds none. */
const SEARCH = `def alive():
    with open(edited) as file: return len(file.read())
edited = "/tmp/edited"
open(edited, "w").close()
os.chmod(edited, 0o666)
def start(first_ends):
    pid = os.fork()
    if pid: return pid
    os.setresgid(USER, USER, USER); os.setresuid(USER, USER, USER)
    if first_ends:
        os.execvp("python3", ["python3", "-c", HEADLESS])
    os._exit(0)
headless, zombie = start(True), start(False)
while alive() == 0: time.sleep(0.01)
while open("/proc/%d/stat" % headless).read().rsplit(")", 1)[1].split()[0] != "Z": time.sleep(0.01)
print("found", [{headless: "headless", zombie: "zombie"}.get(pid, pid) for pid in processes_of(USER)], flush=True)
for pid in processes_of(USER): os.kill(pid, signal.SIGKILL)
while processes_of(USER): time.sleep(0.01)
before = alive()
time.sleep(0.5)
print("edits", alive() - before)
os.kill(headless, signal.SIGKILL)`

test("the audit's search for processes finds one whose first thread has ended, and no zombie", async () => {
  const player = await open()
  const search = await readFile(
    new URL('../../../src/adapters/docker/grader/audit/processes.py', import.meta.url),
    'utf8',
  )
  const headless = HEADLESS.replace('/testbed/m.py', '/tmp/edited')
  const { text } = await player.play(
    python(`${search}\nUSER = 65533\nHEADLESS = ${JSON.stringify(headless)}\n${SEARCH}`),
  )
  assert.equal(text, "found ['headless']\nedits 0\n")
  await fixture.host.close(player.sandbox)
})

// The story: a killed process that its tracer has stopped at its end ignores further kills. Two that trace each other outlive their
// container's first process, and no engine can remove what is left. So this asks only whether the stop is to be had.
test('no process can be stopped at its end by a tracer', () =>
  attacked(async ({ play }) => {
    const { text } = await play(
      python(`import ctypes, os, signal, time
libc = ctypes.CDLL(None, use_errno=True)
SETOPTIONS, SEIZE, DETACH, EVENT = 0x4200, 0x4206, 17, 0x4201
def child():
    pid = os.fork()
    if pid == 0: time.sleep(60)
    return pid
one = child()
print("seize", libc.ptrace(SEIZE, one, 0, 0x40), libc.ptrace(SEIZE, one, 0, 0x7f), libc.ptrace(SEIZE, one, 0, 0x1f))
print("options", libc.ptrace(SETOPTIONS, one, 0, 0x40))
two = child()
libc.ptrace(16, two, 0, 0); os.waitpid(two, 0)
print("options", libc.ptrace(SETOPTIONS, two, 0, 0x41), libc.ptrace(SETOPTIONS, two, 0, 0x1f))
# A word that is written into a process may have the same bit.
print("write", libc.ptrace(5, two, ctypes.c_void_p(id(one) & ~0xfff), ctypes.c_void_p(0x40)))
for pid in (one, two): os.kill(pid, 9)
print("ended", [os.waitpid(pid, 0)[1] for pid in (one, two)])`),
    )
    assert.equal(text, 'seize -1 -1 0\noptions -1\noptions -1 0\nwrite 0\nended [9, 9]\n')
  }))

test('no process inside keeps a sandbox alive past its lease when no worker renews it', async () => {
  const player = await open({ leaseMs: 4000 })
  await player.play(
    `(setsid ${python(`import os, socket, time
while True:
    for name in ("lease", "fence", "agent/lease", "agent/state"):
        try: open("/.lh/" + name, "w").write(str(time.time()))
        except OSError: pass
    knock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try: knock.connect("\\0longhaul-runner"); knock.send(b"0 init\\n")
    except OSError: pass
    for signal in (1, 2, 10, 12, 17, 18):
        try: os.kill(1, signal)
        except OSError: pass
    time.sleep(0.05)`).replace('python3 - <<', 'python3 - > /dev/null <<')}
) & echo begun`,
  )
  const container = fixture.engine.docker.getContainer(player.sandbox.name)
  await untilTrue(async () => !(await container.inspect()).State.Running)
  const { State: state } = await container.inspect()
  assert.deepEqual([state.ExitCode, state.OOMKilled], [0, false])
  await fixture.host.close(player.sandbox)
})

test('the kernel kills a memory bomb before the runner', () =>
  attacked(async ({ play }) => {
    for (const bomb of [
      'x = bytearray(2 << 30)',
      'import os\nfor _ in range(100):\n    if os.fork() == 0:\n        x = bytearray(20 << 20)\n        import time\n        time.sleep(30)\n        os._exit(0)\nos.wait()',
    ]) {
      const { oomKilled } = await play(python(bomb), { timeoutMs: 20_000 })
      assert.equal(oomKilled, true)
    }
  }))

/** None may cost more than its own turn: the next one has state, directory and files of the turn before. */
const SHELL_TRICKS: [what: string, command: string][] = [
  ['every descriptor closed', 'exec <&- >&- 2>&-; for n in 3 4 5 6 7 8 9; do eval "exec $n>&-"; done'],
  ['other descriptors in the place of its own', 'exec >/dev/full 2>&1 </dev/zero; echo x; : >&9'],
  ['the output made a terabyte, then nothing', 'truncate -s 1T /proc/self/fd/1; sleep 0.6; : > /proc/self/fd/1'],
  ['the output held open by a background process', '(setsid sh -c "trap "" TERM HUP; sleep 30" &) ; echo begun'],
  [
    'functions in the place of what the shell of a turn calls',
    'for f in cd pwd printf export umask unset trap set eval exec exit echo test read command builtin; do eval "$f() { :; }"; builtin export -f $f; done',
  ],
  [
    'functions in the place of what saves the state',
    'lh_save() { printf forged; }; lh_enter() { exit 3; }; export -f lh_save lh_enter',
  ],
  ['builtins switched off', 'enable -n printf umask pwd export unset trap eval read'],
  ['aliases', 'shopt -s expand_aliases; alias cd=false export=false printf=false umask=false'],
  ['variables that cannot be set again', 'readonly lh_turn=99 lh_umask lh_cwd lh_old; readonly -p >/dev/null'],
  [
    'files that shells read as they start',
    'export BASH_ENV=/tmp/rc ENV=/tmp/rc PROMPT_COMMAND="exit 9" PS4="$(printf forged)"; echo "exit 9" | tee /tmp/rc /root/.bashrc /root/.profile /etc/profile /etc/bash.bashrc >/dev/null',
  ],
  ['the state of options', 'set -euxfnv; false'],
  [
    'options of the shell',
    'shopt -s extdebug failglob nullglob dotglob nocasematch lastpipe inherit_errexit; set -o posix; set -o noclobber; set -o errtrace; trap "exit 5" DEBUG ERR RETURN',
  ],
  [
    'fields and letters',
    'export IFS=0123456789/ LC_ALL=xx_YY.nonsense TZ=:/dev/zero POSIXLY_CORRECT=1 GLOBIGNORE="*" CDPATH=/proc FIGNORE=x HISTFILE=/dev/full',
  ],
  [
    'traps of every signal',
    'for s in EXIT HUP INT QUIT TERM USR1 CHLD PIPE ALRM CONT; do trap "echo trapped; kill -9 $$" $s; done',
  ],
  ['an exit within the exit', 'trap "trap "exit 4" EXIT; exit 3" EXIT; exit 2'],
  ['limits of nothing', 'ulimit -n 4; ulimit -f 0; ulimit -u 1; ulimit -t 1; ulimit -v 100000; ulimit -s 64; :'],
  ['another program in the place of the shell', 'exec -a bash sh -c "echo $$; exec sleep 0.1"'],
  ['the parent stopped', 'kill -STOP $PPID $$; :'],
  [
    'a stop of everything, and a child that goes on',
    '(trap "" TSTP TTIN; sleep 0.2; kill -CONT -1) & kill -TSTP 0; kill -STOP $$',
  ],
  [
    'forks that wait, in sessions of their own',
    'for i in 1 2 3 4 5 6 7 8; do setsid sh -c "trap "" TERM HUP INT; sleep 1; (setsid sleep 5 &)" & done',
  ],
  [
    'a program that has the name of the runner',
    'cp /bin/sleep "/tmp/runner) R 0 0 0 (x"; "/tmp/runner) R 0 0 0 (x" 3 & echo begun',
  ],
  [
    'an environment of a hundred kilobytes, which hides the mark of its turn',
    'A=$(head -c 100000 /dev/zero | tr "\\0" a) B=$A sleep 3 & echo begun',
  ],
  ['the mark of another turn', 'LH_TURN=-99999- setsid sleep 3 & LH_TURN=- setsid sleep 3 & echo begun'],
]

test('shell tricks cost at most their own turn, and the next turn has the state before them', () =>
  attacked(async (player) => {
    for (const [what, command] of SHELL_TRICKS) {
      const { reason, state } = await player.play(`(${command}\n)\n${command}`, { timeoutMs: 3000 })
      assert.ok(['exit', 'signal', 'timeout', 'output-limit', 'process-limit'].includes(reason), `${what}: ${reason}`)
      assert.deepEqual([state.submitted, state.openFile], [false, null], what)
      // Exported functions and variables are the agent's own state: a turn may begin with them as it was left.
      await player.play(
        'unset -f $(compgen -A function) 2>/dev/null; unset IFS BASH_ENV ENV LC_ALL; cd /tmp; export KEPT=1',
        {},
      )
      assert.equal(await goesOn(player), 'kept 1 /tmp\n', what)
    }
  }))

const SURROGATE = '\\355\\240\\200'
/** What a command prints, with the bytes that must come back as they are. */
const OUTPUTS: [what: string, command: string, bytes: number][] = [
  ['NUL bytes', 'head -c 3000000 /dev/zero', 3_000_000],
  ['halves of surrogates', `i=0; while [ $i -lt 1000 ]; do printf '${SURROGATE}'; i=$((i + 1)); done`, 3000],
  ['one line of 20 megabytes', 'head -c 20000000 /dev/zero | tr "\\0" x', 20_000_000],
  [
    'separators of lines that only others see',
    "printf '\\342\\200\\250\\342\\200\\251\\302\\205%.0s' $(seq 1 2000)",
    16_000,
  ],
  [
    'sequences of terminals',
    "printf '\\033]0;x\\007\\033[2J\\033[1;31m\\033P\\033[?1049h\\b\\r%.0s' $(seq 1 1000)",
    29_000,
  ],
  [
    'answers of a runner',
    "printf 'lh1 000000000000000000000000 done 0 exit 0 1 0 0 1 0 0 0 2.t\\n%.0s' $(seq 1 300)",
    18_300,
  ],
]

test('counts floods and bytes of every kind exactly, bounds the output and continues', () =>
  attacked(async (player) => {
    for (const [what, command, bytes] of OUTPUTS) {
      const { outputBytes, head, tail, omittedBytes } = await player.play(command)
      assert.equal(outputBytes, bytes, what)
      assert.ok(head.byteLength + tail.byteLength <= 16_000, what)
      assert.equal(head.byteLength + tail.byteLength + omittedBytes, bytes, what)
      assert.equal(await goesOn(player), 'kept 1 /tmp\n', what)
    }
  }))
