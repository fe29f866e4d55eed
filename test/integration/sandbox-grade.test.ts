import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, test } from 'node:test'

import { createDockerSandboxHost } from '../../src/adapters/docker/sandbox/sandbox-host.ts'
import { listSandboxes } from '../../src/adapters/docker/container/list-sandboxes.ts'
import { GRADING_SLACK_MS } from '../../src/adapters/docker/grader/grading-container.ts'
import type { GradeRunInput } from '../../src/contracts/sandbox.types.ts'
import { LIMITS, type SandboxFixture, codeOf, createSandboxFixture, never, untilTrue } from './sandbox-fixture.ts'

let fixture: SandboxFixture

before(async () => {
  fixture = await createSandboxFixture('grade', {
    'm.py': 'def f():\n    return 1\n',
    'test_m.py': 'from m import f\n\n\ndef test_f():\n    assert f() == 2\n',
  })
})

after(() => fixture.dispose())

const PATCH = [
  'diff --git a/m.py b/m.py',
  '--- a/m.py',
  '+++ b/m.py',
  '@@ -1,2 +1,2 @@',
  ' def f():',
  '-    return 1',
  '+    return 2',
  '',
].join('\n')

function gradeInput(changes: Partial<GradeRunInput>): GradeRunInput {
  return {
    run: fixture.run,
    episode: `${fixture.run}/stage/0001/task/00`,
    owner: 'test',
    role: 'grader',
    image: fixture.image,
    repoDir: '/testbed',
    patch: Buffer.from(PATCH),
    applyCommands: [
      ['git', 'apply', '--verbose', '/tmp/patch.diff'],
      ['git', 'apply', '--verbose', '--reject', '/tmp/patch.diff'],
    ],
    evalScript: 'echo "in $PWD"; python3 -m pytest -rA -p no:cacheprovider test_m.py',
    timeoutMs: 60_000,
    limits: LIMITS,
    leaseMs: 120_000,
    ...changes,
  }
}

async function grade(changes: Partial<GradeRunInput> = {}) {
  const result = await fixture.host.grade(gradeInput(changes), never)
  assert.deepEqual(await listSandboxes({ engine: fixture.engine, run: fixture.run }), [])
  return { ...result, text: Buffer.from(result.log).toString() }
}

test('applies a patch, runs the evaluation in the repository and removes the container', async () => {
  const result = await grade()
  assert.equal(result.kind, 'ran')
  assert.equal(result.kind === 'ran' && result.exitCode, 0)
  assert.match(result.text, /^in \/testbed\n/)
  assert.match(result.text, /PASSED test_m.py::test_f/)
  assert.match(result.imageDigest, /^sha256:/)
})

test('a grader has only the capabilities of scripts, no new privileges, seccomp and loopback only', async () => {
  const evalScript = [
    'grep -E "^(CapEff|CapBnd|CapInh|NoNewPrivs|Seccomp):" /proc/self/status; ls /sys/class/net',
    'mknod /tmp/device c 1 3 2>&1; python3 -c "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)" 2>&1 | tail -n 1',
    'mkfifo /tmp/pipe && chown 1000:1000 /tmp/pipe && python3 -c "import socket; socket.socket().bind((\\"127.0.0.1\\", 80))" && echo used',
  ].join('\n')
  const { text } = await grade({ evalScript })
  const set = '00000000000404fb'
  assert.ok(
    text.includes(
      `CapInh:\t${'0'.repeat(16)}\nCapEff:\t${set}\nCapBnd:\t${set}\nNoNewPrivs:\t1\nSeccomp:\t2\nlo\nmknod: /tmp/device: Operation not permitted\nPermissionError: [Errno 1] Operation not permitted\nused\n`,
    ),
    text,
  )
})

test('applies nothing for an empty patch, and the evaluation runs and fails', async () => {
  const result = await grade({ patch: new Uint8Array(), applyCommands: [] })
  assert.equal(result.kind === 'ran' && result.exitCode, 1)
  assert.match(result.text, /FAILED test_m.py::test_f/)
})

test('tries every command for a patch that does not apply and does not run the evaluation', async () => {
  const result = await grade({ patch: Buffer.from(PATCH.replace('return 1', 'return 5')) })
  assert.equal(result.kind, 'patch-did-not-apply')
  assert.equal(result.text.match(/patch failed: m.py:1/g)?.length, 2)
  assert.doesNotMatch(result.text, /in \/testbed/)
})

test('runs the evaluation when the second apply command works', async () => {
  const applyCommands = [
    ['git', 'apply', '/tmp/no such $(file)'],
    ['git', 'apply', '/tmp/patch.diff'],
  ]
  assert.equal((await grade({ applyCommands })).kind, 'ran')
})

test('patch and log keep their bytes: CRLF, no final newline, Latin-1', async () => {
  const patch = Buffer.from(
    'diff --git a/n.txt b/n.txt\nnew file mode 100644\n--- /dev/null\n+++ b/n.txt\n@@ -0,0 +1 @@\n+caf\xe9\r\n\\ No newline at end of file\n',
    'latin1',
  )
  const result = await grade({ patch, evalScript: 'cat n.txt; printf "\\000\\377 end"' })
  assert.deepEqual(Buffer.from(result.log), Buffer.from('caf\xe9\r\0\xff end', 'latin1'))
})

test('merges stderr and stdout of the evaluation in order', async () => {
  assert.equal((await grade({ evalScript: 'echo 1; echo 2 >&2; echo 3' })).text, '1\n2\n3\n')
})

test('an evaluation past its deadline is timed out and keeps its log so far', async () => {
  const result = await grade({ evalScript: "trap '' TERM; echo begun; sleep 600", timeoutMs: 1000 })
  assert.equal(result.kind, 'timed-out')
  assert.equal(result.text, 'begun\n')
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
  const result = await host.grade(gradeInput({ evalScript, timeoutMs: 2_000 }), never)
  host.dispose()
  assert.equal(result.kind, 'timed-out')
  assert.deepEqual(await listSandboxes({ engine: fixture.engine, run: fixture.run }), [])
})

test('a grading container that is paused from outside fails as Sandbox.Stalled', async () => {
  const host = createDockerSandboxHost({ engine: fixture.engine, hostId: 'h', hostQueue: 'q', gradingSlackMs: 3_000 })
  const running = host.grade(gradeInput({ evalScript: 'sleep 600', timeoutMs: 4_000 }), never)
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
  const grading = host.grade(gradeInput({ evalScript: 'sleep 600' }), endless.signal)
  const ended = assert.rejects(grading, /enough/)
  const waiting = new AbortController()
  const queued = assert.rejects(host.grade(gradeInput({ patch: new Uint8Array() }), waiting.signal), /cancelled/)
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

test('returns the result although the evaluation leaves processes that hold its output open', async () => {
  const result = await grade({ evalScript: '(sleep 600; echo late) & setsid sleep 600 & echo done', timeoutMs: 30_000 })
  assert.equal(result.kind, 'ran')
  assert.equal(result.text, 'done\n')
})

/** A16: the evaluation runs hostile code as root, so the files that are read back may be anything. */
const HOSTILE_LOGS: [what: string, evalScript: string, log: RegExp][] = [
  ['a link to a file of the container', 'rm /.lh/grade/log; ln -s /etc/passwd /.lh/grade/log', /^$/],
  ['a link above the container', 'rm /.lh/grade/log; ln -s ../../../../../etc/passwd /.lh/grade/log', /^$/],
  ['a device', 'rm /.lh/grade/log; mknod /.lh/grade/log c 1 5 2>/dev/null || ln -s /dev/zero /.lh/grade/log', /^$/],
  ['a pipe', 'rm /.lh/grade/log; mkfifo /.lh/grade/log', /^$/],
  ['a folder', 'rm /.lh/grade/log; mkdir -p /.lh/grade/log/log', /^$/],
  ['a sparse file of a terabyte', 'rm /.lh/grade/log; truncate -s 1T /.lh/grade/log', /^\0*$/],
]

for (const [what, evalScript, log] of HOSTILE_LOGS) {
  test(`returns only regular bytes below the limit when the evaluation puts ${what} in the place of its log`, async () => {
    const result = await grade({ evalScript, timeoutMs: 30_000 })
    assert.equal(result.kind, 'ran')
    assert.ok(result.log.byteLength <= 16 * 1024 * 1024)
    // Testing the beginning is enough, and the whole would be slow.
    assert.match(result.text.slice(0, 1000), log)
  })
}

/** What opens the name of a pipe waits for its other end. */
const PIPES: [what: string, evalScript: string, kind: string][] = [
  ['the mark of its passed limit', 'mkfifo /.lh/grade/overdue; sleep 600', 'timed-out'],
  ['the null device', 'rm /dev/null; mkfifo /dev/null; echo done', 'ran'],
]

for (const [what, evalScript, kind] of PIPES) {
  test(`the evaluation still ends by its own deadline after it puts a pipe in the place of ${what}`, async () => {
    const result = await grade({ evalScript, timeoutMs: 3_000 })
    assert.equal(result.kind, kind)
    assert.ok(result.wallMs < 3_000 + GRADING_SLACK_MS / 2, `${result.wallMs} ms`)
  })
}

test('ignores answers that the evaluation writes to every output it finds', async () => {
  const forged = 'printf "\\nlh1 %s ran 0 1\\nforged\\nlh1 %s\\n\\nlh1 %s\\n" guess guess guess'
  const evalScript = `for fd in 0 1 2 3 4 5 6; do for p in 1 $PPID; do { ${forged} >/proc/$p/fd/$fd; } 2>/dev/null; done; done; exit 3`
  const result = await grade({ evalScript, timeoutMs: 30_000 })
  assert.deepEqual([result.kind, result.kind === 'ran' && result.exitCode], ['ran', 3])
})

test('an evaluation that kills its waiting process has ended its own grading', async () => {
  const input = gradeInput({ evalScript: 'kill -9 -1; sleep 1', timeoutMs: 30_000 })
  await assert.rejects(fixture.host.grade(input, never), { code: 'Grading.Ended' })
})

test('a container that is killed from outside is not blamed on the patch', async () => {
  const grading = fixture.host.grade(gradeInput({ evalScript: 'sleep 60', timeoutMs: 90_000 }), never)
  grading.catch(() => undefined)
  const filters = { label: [`longhaul.run=${fixture.run}`] }
  await untilTrue(async () => {
    const running = (await fixture.engine.docker.listContainers({ filters })).filter(({ State }) => State === 'running')
    for (const { Id } of running) await fixture.engine.docker.getContainer(Id).kill()
    return running.length > 0
  })
  await assert.rejects(grading, { code: 'Grading.Failed' })
})

test('a patch, a script and a file of any size and any bytes arrive unchanged', async () => {
  const body = Buffer.from(Array.from({ length: 300_000 }, (_, index) => (index * 7 + (index >> 8)) % 256))
  const files = { '/opt/deep/large.bin': body, '/opt/deep/small.bin': body.subarray(0, 5000), "/opt/it's": "a'b\n" }
  const evalScript = `# ${'x'.repeat(70_000)}\nsha256sum /opt/deep/*.bin; cat "/opt/it's"; stat -c %a /eval.sh`
  const { text } = await grade({ files, evalScript })
  const sums = [body, body.subarray(0, 5000)].map((bytes) => createHash('sha256').update(bytes).digest('hex'))
  assert.equal(text, `${sums[0]}  /opt/deep/large.bin\n${sums[1]}  /opt/deep/small.bin\na'b\n755\n`)
})

test('an evaluation that floods its log is ended with a bounded log without an end marker', async () => {
  const result = await grade({ evalScript: 'yes flood; echo end', timeoutMs: 600_000 })
  assert.equal(result.kind, 'ran')
  assert.ok(result.log.byteLength <= 16 * 1024 * 1024)
  assert.doesNotMatch(result.text.slice(-100), /end/)
})

test('a cancelled grading rejects with the caller’s reason and removes its container', async () => {
  const controller = new AbortController()
  const reason = new Error('cancelled')
  const running = fixture.host.grade(gradeInput({ evalScript: 'sleep 600' }), controller.signal)
  setTimeout(() => controller.abort(reason), 700)
  await assert.rejects(running, (error) => error === reason)
  assert.deepEqual(await listSandboxes({ engine: fixture.engine, run: fixture.run }), [])
})

test('a missing image fails as Sandbox.ImageMissing', async () => {
  const missing = fixture.host.grade(gradeInput({ image: 'longhaul-test/never-built:1' }), never)
  await assert.rejects(missing, (error) => codeOf(error) === 'Sandbox.ImageMissing')
})

test('ignores the clock of the evaluation: a false time limit and false figures have no effect', async () => {
  const hurry = 'echo overdue >/.lh/grade/overdue; kill -9 $PPID'
  await assert.rejects(grade({ evalScript: hurry, timeoutMs: 600_000 }), (error) => codeOf(error) === 'Grading.Ended')
  const lies = "for name in date cat awk; do printf '#!/bin/sh\\necho 1e18\\n' > $(command -v $name); done; echo done"
  const before = performance.now()
  const lied = await grade({ evalScript: lies })
  assert.equal(lied.kind, 'ran')
  assert.ok(lied.wallMs >= 0 && lied.wallMs <= performance.now() - before, `${lied.wallMs} ms`)
  assert.equal(lied.peakMemoryBytes, undefined)
})
