/**
 * An agent, or a patch under test, keeps data in the kernel instead of in its processes. What the kernel charges to the container ends by
 * the container's memory limit. What it does not charge would be taken from the host and its neighbours: the queues of sockets, and the
 * terminals that all containers share.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'

import { listSandboxes } from '../../../src/adapters/docker/container/list-sandboxes.ts'
import type { SandboxLimits } from '../../../src/contracts/sandbox.types.ts'
import {
  attacksBeside,
  codeOf,
  createPlayer,
  createSandboxFixture,
  never,
  type Player,
  python,
  type SandboxFixture,
  untilTrue,
} from '../sandbox-fixture.ts'

const LIMITS: SandboxLimits = { cpus: 1, memoryMiB: 128, pids: 64, diskGiB: 1 }
/** More than the limit, and little enough for any host. */
const MUCH = 300 << 20

const isRoot = process.getuid?.() === 0
const skip = isRoot ? false : 'needs root: only root may count what containers keep in the kernel'

let fixture: SandboxFixture
let neighbour: Player

before(async () => {
  if (!isRoot) return
  fixture = await createSandboxFixture('kernel-stock', { 'm.py': 'x = 1\n' })
  neighbour = createPlayer(fixture.host, await fixture.host.open(fixture.openInput({ limits: LIMITS }), never))
})

after(async () => {
  if (isRoot) await fixture.dispose()
})

const attacked = attacksBeside(() => ({ fixture, neighbour }), LIMITS)

/** Fills queue after queue, and then keeps them. */
const queues = (...lines: string[]): string =>
  `import ctypes, os, socket, time
kept, total = [], 0
def pair():
${lines.map((line) => `    ${line}`).join('\n')}
def fill():
    global total
    sender = pair()
    sender.setblocking(False)
    try:
        while total < ${MUCH}: total += sender.send(bytes(60000))
    except (BlockingIOError, InterruptedError): pass
while total < ${MUCH}: fill()
print("kept", total, flush=True)
time.sleep(60)`

const SOCKETS: [kind: string, lines: string[]][] = [
  [
    'netlink sockets',
    [
      'receiver, sender = (socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 2) for _ in range(2))',
      'receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)',
      'receiver.bind((0, 0)); sender.connect(receiver.getsockname()); kept.extend((receiver, sender)); return sender',
    ],
  ],
  [
    'UDP sockets of the loopback',
    [
      'receiver, sender = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))',
      'receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)',
      'receiver.bind(("127.0.0.1", 0)); sender.connect(receiver.getsockname()); kept.extend((receiver, sender))',
      // The kernel drops what finds no room, and does not say so.
      'class Full:',
      '    sent = 0',
      '    def setblocking(self, _): pass',
      '    def send(self, data):',
      '        self.sent += len(data)',
      '        if self.sent > 4 << 20: raise BlockingIOError',
      '        return sender.send(data)',
      'return Full()',
    ],
  ],
  [
    'TCP connections of the loopback',
    [
      'door = socket.socket(); door.bind(("127.0.0.1", 0)); door.listen()',
      'sender = socket.create_connection(door.getsockname()); kept.extend((door.accept()[0], sender)); return sender',
    ],
  ],
]

describe('stock of the kernel', { skip }, () => {
  for (const [kind, lines] of SOCKETS) {
    test(`data in the queues of ${kind}, which no memory limit counts, ends the sandbox as the agent's own failure`, () =>
      attacked(async ({ play }) => {
        const outcome = await play(python(queues(...lines)), { timeoutMs: 90_000 }).then(
          ({ text }) => text,
          (error: unknown) => codeOf(error),
        )
        assert.equal(outcome, 'Sandbox.Ended')
        assert.equal(codeOf(await play('echo again').catch((error: unknown) => error)), 'Sandbox.Ended')
      }))
  }

  test('a process of an earlier turn that fills queues between the turns ends the sandbox too', () =>
    attacked(async ({ play, sandbox }) => {
      const [, lines] = SOCKETS[0] as [string, string[]]
      await play(
        `cat > /tmp/fill.py <<'EOF_FILL'\n${queues(...lines)}\nEOF_FILL\nsetsid python3 /tmp/fill.py >/dev/null 2>&1 &`,
      )
      await untilTrue(async () => !(await fixture.isRunning(sandbox.name)))
      assert.equal(codeOf(await play('echo again').catch((error: unknown) => error)), 'Sandbox.Ended')
    }))

  test('more sockets than honest programs have, though empty, end the sandbox', () =>
    attacked(async ({ play }) => {
      const outcome = await play(
        python(
          'import os, socket, time\nfor _ in range(8):\n    if os.fork() == 0: break\nkept = []\ntry:\n    while True: kept.append(socket.socket(socket.AF_UNIX))\nexcept OSError: time.sleep(60)',
        ),
        { timeoutMs: 90_000 },
      ).then(
        ({ text }) => text,
        (error: unknown) => codeOf(error),
      )
      assert.equal(outcome, 'Sandbox.Ended')
    }))

  test('more terminals than honest programs have end the sandbox, and its neighbours have theirs', () =>
    attacked(async ({ play }) => {
      const outcome = await play(
        python(
          'import os, time\nfor _ in range(3):\n    if os.fork() == 0: break\nkept = []\ntry:\n    while True: kept.append(os.open("/dev/ptmx", 2))\nexcept OSError: time.sleep(30)',
        ),
        { timeoutMs: 60_000 },
      ).then(
        ({ text }) => text,
        (error: unknown) => codeOf(error),
      )
      assert.equal(outcome, 'Sandbox.Ended')
      const { text } = await neighbour.play(python('import os\nprint(os.open("/dev/ptmx", 2) > 0)'))
      assert.equal(text, 'True\n')
    }))

  test('queues and terminals below the limits end nothing', () =>
    attacked(async ({ play }) => {
      for (const [, lines] of SOCKETS) {
        const small = queues(...lines)
          .replaceAll(String(MUCH), String(24 << 20))
          .replace('sleep(60)', 'sleep(3)')
        assert.match((await play(python(small))).text, /^kept \d+\n$/)
      }
      const terminals =
        'import os, time\nkept = [os.open("/dev/ptmx", 2) for _ in range(400)]\ntime.sleep(3)\nprint(len(kept))'
      assert.equal((await play(python(terminals))).text, '400\n')
    }))

  test('the attacks leave nothing, and the neighbouring sandbox keeps its state', async () => {
    const left = await listSandboxes({ engine: fixture.engine, run: fixture.run })
    assert.deepEqual(
      left.map(({ name }) => name),
      [neighbour.sandbox.name],
    )
    assert.equal((await neighbour.play('git status --short; pwd')).text, '/testbed\n')
  })
})
