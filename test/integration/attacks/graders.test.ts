/**
 * A patch tries to break the container that grades it: the code under test leaves what cannot be read, removed or waited for. Each ends
 * within the limits as a failure of the policy, and its container is gone. The code runs as another user in the audit, then as root.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { type Graded } from '../../../src/activities/grading/run-grading.ts'
import { gradeAndAudit } from '../../support/audit/grade-and-audit.ts'
import { listSandboxes } from '../../../src/adapters/docker/container/list-sandboxes.ts'
import { craftPatch } from '../../support/attacks/crafted-patch.ts'
import { type AttackWorld, createAttackWorld } from '../../support/attacks/world.ts'
import { boundEngineRequests, connectEngine, limitOfRequest } from '../../../src/adapters/docker/engine/engine.ts'
import { createDockerSandboxHost, type DockerSandboxHost } from '../../../src/adapters/docker/sandbox/sandbox-host.ts'
import { LIMITS, never, untilTrue } from '../sandbox-fixture.ts'

/** Of the official tests, and of the audited ones: no attack here needs to meet it, and a busy machine takes minutes for 20,000 folders. */
const TEST_TIMEOUT_MS = 300_000

let world: AttackWorld
let count = 0

before(async () => {
  world = await createAttackWorld('graders')
})

after(() => world.dispose())

const code = (...lines: string[]): string => `${lines.join('\n')}\n`
/** Runs when the tests import the module. */
const WRONG = code('def add(a, b):', '    return a * b', '', '', 'def double(a):', '    return a * 2')

async function grade(attack: string, host?: DockerSandboxHost): Promise<Graded> {
  return gradePatch(craftPatch({ tar: world.repository.tar, edits: { 'calc.py': WRONG + attack } }), host)
}

async function gradePatch(patch: Buffer, host: DockerSandboxHost = world.host): Promise<Graded> {
  count += 1
  return gradeAndAudit(
    { store: world.store, sandbox: host, ensureImage: async () => undefined },
    {
      run: world.run,
      episode: `graders/${count}`,
      owner: 'test',
      role: 'grader',
      limits: LIMITS,
      patch,
      task: world.task,
      logKey: `logs/${count}.txt`,
      testTimeoutMs: TEST_TIMEOUT_MS,
    },
    never,
  )
}

const deep = (folder: string, levels: number): string =>
  code(
    'import os',
    `os.chdir(${folder})`,
    `for _ in range(${levels}):`,
    '    if not os.path.isdir("d"): os.mkdir("d")',
    '    os.chdir("d")',
    'open("leaf", "w").close()',
    'os.chdir("/testbed")',
  )
const held = (...lines: string[]): string =>
  code('import os, signal, time', 'if os.fork() == 0:', '    os.setsid()', ...lines.map((line) => `    ${line}`))
/** In the place of each file below the folder of the grader, where the code may do so. */
const replaced = (place: string): string =>
  code(
    'import glob, os',
    'for path in ["/.lh/grade/log", "/.lh/grade/errors", "/.lh/grade/overdue", "/.lh/audit", "report.xml", "pytest.ini", "tests/conftest.py"]:',
    '    try:',
    '        if os.path.lexists(path): os.rename(path, path + ".old")',
    `        ${place}`,
    '    except OSError: pass',
  )

const ATTACKS: [what: string, attack: string][] = [
  ['a folder of 20,000 levels in the repository', deep('"/testbed"', 20_000)],
  // More than Python's own removal has frames for.
  ['a folder of 2,000 levels where all may write', deep('"/tmp"', 2_000)],
  ['a folder of 2,000 levels in its home', deep('os.environ.get("HOME", "/root")', 2_000)],
  ['a child that keeps every output open and sleeps', held('time.sleep(100_000)')],
  ['a child that keeps every output open and is stopped', held('os.kill(os.getpid(), signal.SIGSTOP)')],
  [
    'children of children that keep every output open and ignore signals',
    held(
      'for number in range(1, 65):',
      '    try: signal.signal(number, signal.SIG_IGN)',
      '    except (OSError, ValueError): pass',
      'if os.fork() == 0: os.setsid()',
      'while True: time.sleep(1)',
    ),
  ],
  ['pipes in the place of logs and reports', replaced('os.mkfifo(path)')],
  ['sockets in the place of logs and reports', replaced('import socket; socket.socket(socket.AF_UNIX).bind(path)')],
  ['links to an endless device in the place of logs and reports', replaced('os.symlink("/dev/zero", path)')],
  ['links to themselves in the place of logs and reports', replaced('os.symlink(os.path.basename(path), path)')],
  ['folders in the place of logs and reports', replaced('os.mkdir(path)')],
]

for (const [what, attack] of ATTACKS) {
  test(`ends as unresolved and removes its container when the code under test leaves ${what}`, async (t) => {
    const { kind, reason, audit } = await grade(attack)
    t.diagnostic(`${kind} (${reason}), audit: ${audit?.outcome} ${audit?.reasons.join(' ')} (${audit?.detail})`)
    // With a reason where a limit or the end of the container was met.
    assert.deepEqual([kind, reason], ['unresolved', null])
    // The audit itself went on to its end.
    assert.deepEqual([audit?.outcome, audit?.reasons], ['void', ['no-honest-pass']])
    assert.deepEqual(await listSandboxes({ engine: world.engine, run: world.run }), [])
  })
}

/** Data that stays when its process ends: the tests find no memory. */
const KEPT: [what: string, attack: string][] = [
  [
    'shared memory without a process',
    code(
      'import ctypes, os',
      'libc = ctypes.CDLL(None)',
      'libc.shmat.restype = ctypes.c_void_p',
      'for _ in range(60):',
      '    if os.fork() == 0:',
      '        ctypes.memset(libc.shmat(libc.shmget(0, 10 << 20, 0o1666), None, 0), 1, 10 << 20)',
      '        os._exit(0)',
      '    os.wait()',
    ),
  ],
  [
    'messages without a process',
    code(
      'import ctypes, os',
      'libc = ctypes.CDLL(None)',
      'message = ctypes.create_string_buffer(b"\\1", 8200)',
      'if os.fork() == 0:',
      '    while True:',
      '        queue = libc.msgget(0, 0o1666)',
      '        if queue < 0: break',
      '        while libc.msgsnd(queue, message, 8192, 0o4000) == 0: pass',
      '    os._exit(0)',
      'os.wait()',
    ),
  ],
]

for (const [what, attack] of KEPT) {
  test(`ends as unresolved and removes its container when the code under test fills its memory with ${what}`, async (t) => {
    const { kind, reason, audit } = await grade(attack)
    t.diagnostic(`${kind} (${reason}), audit: ${audit?.outcome} ${audit?.reasons.join(' ')} (${audit?.detail})`)
    assert.equal(kind, 'unresolved')
    assert.equal(audit?.outcome, 'void')
    assert.deepEqual(await listSandboxes({ engine: world.engine, run: world.run }), [])
  })
}

test('a patch that keeps much in the queues of sockets ends its grader as its own failure', async () => {
  const flood = code(
    'import os, socket, time',
    'kept, total = [], 0',
    'while total < 600 << 20:',
    '    receiver, sender = (socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 2) for _ in range(2))',
    '    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)',
    '    receiver.bind((0, 0)); sender.connect(receiver.getsockname()); sender.setblocking(False)',
    '    kept.extend((receiver, sender))',
    '    try:',
    '        while True: total += sender.send(bytes(60_000))',
    '    except OSError: pass',
    'time.sleep(20)',
  )
  // The first time; the second one is a verdict.
  await assert.rejects(grade(flood), { code: 'Grading.Ended' })
  assert.deepEqual(await listSandboxes({ engine: world.engine, run: world.run }), [])
})

// The story: a patch left so many files that the engine took longer than its deadline to remove them. Each attempt to grade was lost to
// that, and the episode was replaced. Here the engine is given no time for removals at all.
test('a grading whose container takes too long to be removed keeps its verdict', async (t) => {
  const engine = await connectEngine()
  boundEngineRequests(engine.docker, (request) => (request.method === 'DELETE' ? 1 : limitOfRequest(request)))
  const host = createDockerSandboxHost({ engine, hostId: 'test-host', hostQueue: 'sandbox.test' })
  t.after(() => host.dispose())
  const { kind, reason, audit } = await grade('', host)
  assert.deepEqual([kind, reason, audit?.reasons], ['unresolved', null, ['no-honest-pass']])
  await untilTrue(async () => (await listSandboxes({ engine: world.engine, run: world.run })).length === 0)
})

// The story: two processes that are stopped at their end, each by the other, outlive every kill. Their container cannot be removed, so each
// attempt to grade failed with the engine's error, and the episode was replaced.
test('the code under test cannot have a process stopped at its end', async () => {
  const { kind } = await gradePatch(
    craftPatch({
      tar: world.repository.tar,
      edits: {
        'calc.py': code(
          'import ctypes, os, time',
          'child = os.fork()',
          'if child == 0:',
          '    time.sleep(60)',
          '    os._exit(0)',
          'refused = ctypes.CDLL(None).ptrace(0x4206, child, 0, 0x40)',
          'os.kill(child, 9)',
          'def add(a, b):',
          '    return a + b if refused == -1 else 0',
          'def double(a):',
          '    return a * 2',
        ),
      },
    }),
  )
  assert.equal(kind, 'resolved')
})
