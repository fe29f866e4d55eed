import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { createDockerSandboxHost } from '../../src/adapters/docker/sandbox/sandbox-host.ts'
import { listSandboxes } from '../../src/adapters/docker/container/list-sandboxes.ts'
import { describeGrading, GRADED_FILES, gradeInputOf } from '../support/sandbox-contract/grading.ts'
import { DEVICES_UP, type SandboxFixture, createSandboxFixture, never } from './sandbox-fixture.ts'

let fixture: SandboxFixture

before(async () => {
  fixture = await createSandboxFixture('graders', GRADED_FILES)
})

after(() => fixture.dispose())

describeGrading(createSandboxFixture)

test('a grader has only the capabilities of scripts, no new privileges, seccomp and loopback only', async () => {
  const evalScript = [
    `grep -E "^(CapEff|CapBnd|CapInh|NoNewPrivs|Seccomp):" /proc/self/status; ${DEVICES_UP}`,
    'mknod /tmp/device c 1 3 2>&1; python3 -c "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)" 2>&1 | tail -n 1',
    'mkfifo /tmp/pipe && chown 1000:1000 /tmp/pipe && python3 -c "import socket; socket.socket().bind((\\"127.0.0.1\\", 80))" && echo used',
  ].join('\n')
  const result = await fixture.host.grade(gradeInputOf(fixture, { evalScript }), never)
  const text = Buffer.from(result.log).toString()
  const set = '00000000000404fb'
  assert.ok(
    text.includes(
      `CapInh:\t${'0'.repeat(16)}\nCapEff:\t${set}\nCapBnd:\t${set}\nNoNewPrivs:\t1\nSeccomp:\t2\nlo\nmknod: /tmp/device: Operation not permitted\nPermissionError: [Errno 1] Operation not permitted\nused\n`,
    ),
    text,
  )
})

/** Tests run as root: they may end the shell that watches their time, and with it the deadline inside. */
test('an evaluation that kills its watchdog and never ends is still timed out', async () => {
  const host = createDockerSandboxHost({ engine: fixture.engine, hostId: 'h', hostQueue: 'q', gradingSlackMs: 3_000 })
  const evalScript = [
    // The watch is the parent of the only process that sleeps.
    'until [ -n "$watch" ]; do',
    '  watch=$(grep -ls "^Name:.sleep$" /proc/[0-9]*/status | xargs -r awk \'/^PPid/ { print $2 }\')',
    'done',
    'kill -9 $watch',
    'while :; do sleep 1; done',
  ].join('\n')
  const result = await host.grade(gradeInputOf(fixture, { evalScript, timeoutMs: 2_000 }), never)
  host.dispose()
  assert.equal(result.kind, 'timed-out')
  assert.deepEqual(await listSandboxes({ engine: fixture.engine, run: fixture.run }), [])
})

test('a grading container that is paused from outside fails as Sandbox.Stalled', async () => {
  const host = createDockerSandboxHost({ engine: fixture.engine, hostId: 'h', hostQueue: 'q', gradingSlackMs: 3_000 })
  const running = host.grade(gradeInputOf(fixture, { evalScript: 'sleep 600', timeoutMs: 4_000 }), never)
  const failed = assert.rejects(running, { code: 'Sandbox.Stalled' })
  const isRunning = async () => (await listSandboxes({ engine: fixture.engine, run: fixture.run }))[0]
  for (let found = await isRunning(); ; found = await isRunning()) {
    if (found !== undefined && (await pause(found.name))) break
  }
  await failed
  host.dispose()
})

test('sandboxes open while endless tests hold every grading slot, and a waiting grading can be cancelled', async () => {
  const host = createDockerSandboxHost({
    engine: fixture.engine,
    hostId: 'h',
    hostQueue: 'q',
    maxGrading: 1,
    maxStarting: 1,
  })
  const endless = new AbortController()
  const grading = host.grade(gradeInputOf(fixture, { evalScript: 'sleep 600' }), endless.signal)
  const ended = assert.rejects(grading, /enough/)
  const waiting = new AbortController()
  const queued = assert.rejects(
    host.grade(gradeInputOf(fixture, { patch: new Uint8Array() }), waiting.signal),
    /cancelled/,
  )
  const sandbox = await host.open(fixture.openInput(), never)
  await host.close(sandbox)
  waiting.abort(new Error('cancelled'))
  await queued
  endless.abort(new Error('enough'))
  await ended
  host.dispose()
})

async function pause(name: string): Promise<boolean> {
  try {
    await fixture.engine.docker.getContainer(name).pause()
    return true
  } catch {
    return false
  }
}

test('a missing image fails as Sandbox.ImageMissing', async () => {
  const missing = fixture.host.grade(gradeInputOf(fixture, { image: 'longhaul-test/never-built:1' }), never)
  await assert.rejects(missing, { code: 'Sandbox.ImageMissing' })
})
