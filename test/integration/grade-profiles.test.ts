/** One task of each kind of row, graded in real containers: gold resolves, an empty patch does not. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { useEnvironment } from '../support/environment.ts'
import { type Graded, runGrading } from '../../src/activities/grading/run-grading.ts'
import { createDirectoryStore } from '../../src/adapters/artifacts/directory-store.ts'
import { readLog } from '../../src/adapters/artifacts/stored-log.ts'
import { normalizeRow } from '../../src/adapters/datasets/normalize-row.ts'
import { type Engine, connectEngine } from '../../src/adapters/docker/engine/engine.ts'
import { createDockerSandboxHost, type DockerSandboxHost } from '../../src/adapters/docker/sandbox/sandbox-host.ts'
import type { Task } from '../../src/contracts/tasks.types.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { buildLayoutImages, type LayoutTask, layoutTasks, removeLayoutImages } from '../support/layouts/layout-tasks.ts'
import { patchOf } from '../support/layouts/patches.ts'
import { LIMITS, never } from './sandbox-fixture.ts'
import { listenOnLoopback } from '../support/loopback.ts'

const root = mkdtempSync(join(tmpdir(), 'longhaul-test-'))
const store = createDirectoryStore({ root })
/** Classic, version 5, the fork's, with runners that start fast; then two of SWE-rebench-V2. */
const tasks = [
  ...layoutTasks({ series: process.pid, layouts: ['conda'], perLayout: 6 }).slice(3),
  ...layoutTasks({ series: process.pid, layouts: ['plain'], perLayout: 2 }),
]
let engine: Engine
let host: DockerSandboxHost
let count = 0

before(async () => {
  engine = await connectEngine()
  host = createDockerSandboxHost({ engine, hostId: 'test-host', hostQueue: 'sandbox.test' })
  await buildLayoutImages({ engine, cacheDir: join(stackPaths().cacheDir, 'images'), tasks })
})

after(async () => {
  host.dispose()
  await removeLayoutImages({ engine, tasks })
  rmSync(root, { recursive: true })
})

function logKey(number: number): string {
  return `logs/${number}.txt`
}

async function grade(task: Task, patch: string, testTimeoutMs?: number): Promise<Graded & { log: string }> {
  count += 1
  const number = count
  const graded = await runGrading(
    { store, sandbox: host, ensureImage: async () => undefined },
    {
      run: `test-profiles-${process.pid}`,
      episode: `profiles/${number}`,
      owner: 'test',
      role: 'grader',
      limits: LIMITS,
      patch: Buffer.from(patch),
      task,
      logKey: logKey(number),
      ...(testTimeoutMs === undefined ? {} : { testTimeoutMs }),
    },
    never,
  )
  return { ...graded, log: Buffer.from((await readLog(store, logKey(number))) ?? '').toString() }
}

const byProfile = (profile: Task['gradingProfile']): LayoutTask =>
  tasks.find(({ task }) => task.gradingProfile === profile) as LayoutTask

for (const { task } of tasks) {
  test(`${task.gradingProfile}, ${task.installConfig.logParser}: the gold patch resolves and an empty patch does not`, async () => {
    const gold = await grade(task, task.goldPatch)
    assert.deepEqual([gold.kind, gold.reason], ['resolved', null], gold.log)
    assert.equal(gold.failToPass.passed, 1)
    const empty = await grade(task, '')
    assert.deepEqual([empty.kind, empty.reason, empty.failToPass.passed], ['unresolved', null, 0], empty.log)
    assert.equal(empty.passToPass.passed, task.passToPass.length)
  })
}

for (const profile of ['swebench-4.1', 'swebench-5', 'rebench-v2'] as const) {
  test(`${profile}: a patch that does not apply is not graded, and its tests do not run`, async () => {
    const { task } = byProfile(profile)
    const graded = await grade(task, patchOf('malformed', byProfile(profile)))
    assert.deepEqual([graded.kind, graded.reason], ['could-not-grade', 'patch-rejected'])
    assert.doesNotMatch(graded.log, /test session starts|Start Test Output/)
  })
}

test('after a half-applied patch version 5 retries on a clean tree, and 4.1 reverts that half', async () => {
  const five = byProfile('swebench-5')
  const graded = await grade(five.task, patchOf('half-fuzzy', five))
  assert.equal(graded.kind, 'resolved', graded.log)
  const four = byProfile('swebench-4.1')
  const rejected = await grade(four.task, patchOf('half-fuzzy', four))
  assert.deepEqual([rejected.kind, rejected.reason], ['could-not-grade', 'patch-rejected'])
})

test('rebench-v2: standard error follows standard output, and an extra passed test leaves the task unresolved', async () => {
  const other = tasks.at(-1) as LayoutTask
  const gold = await grade(other.task, other.task.goldPatch)
  assert.match(gold.log, /^HEAD is now at [^]*--- PASS: TestTotal[^]*Applied patch [^]*running\nfailed: 0\n$/)
  assert.equal(gold.subset, true)
  const fewer = await grade({ ...other.task, passToPass: other.task.passToPass.slice(1) }, other.task.goldPatch)
  assert.deepEqual([fewer.kind, fewer.subset], ['unresolved', true])
})

test('rebench-v2: a failing command ends the run, and results after it do not count', async () => {
  const { task } = byProfile('rebench-v2')
  const installConfig = { ...task.installConfig, testCmd: `false\n${task.installConfig.testCmd}` }
  const graded = await grade({ ...task, installConfig }, task.goldPatch)
  assert.deepEqual([graded.kind, graded.reason, graded.subset], ['unresolved', 'no-results', false])
  assert.equal(graded.provenance?.exitCode, 1)
})

test('tests over their limit are not graded, and the log says so as upstream does', async () => {
  const { task } = byProfile('fork-4.0.3')
  const installConfig = { ...task.installConfig, testCmd: 'sleep 100;' }
  const graded = await grade({ ...task, installConfig }, task.goldPatch, 2000)
  assert.deepEqual([graded.kind, graded.reason], ['could-not-grade', 'tests-timed-out'])
  assert.match(graded.log, /\n\nTimeout error: 2 seconds exceeded\.$/)
})

test('a verdict stores the facts that it rests on', async () => {
  const { task } = byProfile('swebench-5')
  const { provenance, image, patchSha256 } = await grade(task, task.goldPatch)
  assert.match(image, /^sha256:[0-9a-f]{64}$/)
  assert.match(patchSha256, /^[0-9a-f]{64}$/)
  const { machine, logSha256, ...rest } = provenance ?? assert.fail('no provenance')
  assert.deepEqual(rest, {
    upstream: 'PyPI swebench 5.0.2',
    profileRevision: 1,
    rowHash: task.rowHash,
    imageReference: task.image,
    testTimeoutMs: 1_800_000,
    exitCode: 0,
    deviations: ['no-network', 'no-sys-admin'],
  })
  assert.match(logSha256, /^[0-9a-f]{64}$/)
  assert.deepEqual([machine.engine, machine.memoryMiB], [engine.version, LIMITS.memoryMiB])
  assert.match(machine.cpuset, /^\d/)
  assert.ok(machine.endedAtMs >= machine.startedAtMs)
})

test('swebench-5: a binary file is fetched and added; a file that cannot be fetched is an infrastructure failure', async (t) => {
  const { row } = byProfile('swebench-5')
  const server = createServer((request, response) => {
    response.statusCode = request.url === '/fee.bin' ? 200 : 404
    response.end(Buffer.from([0, 255, 7]))
  })
  const port = await listenOnLoopback(server)
  useEnvironment(t, { LONGHAUL_ASSET_HOSTS: `127.0.0.1:${port}` })
  try {
    const url = `http://127.0.0.1:${port}`
    const marker = ": '>>>>> Start Test Output'"
    const withAsset = (name: string): Task =>
      normalizeRow({
        ...row,
        image_assets: JSON.stringify({
          test_patch: [{ path: 'tests/data/fee.bin', url: `${url}/${name}` }],
          patch: [],
        }),
        eval_script: String(row['eval_script']).replace(marker, `${marker}\nod -An -tu1 tests/data/fee.bin`),
      })
    const graded = await grade(withAsset('fee.bin'), '')
    assert.match(graded.log, /\n +0 255 +7\n/)
    await assert.rejects(grade(withAsset('gone.bin'), ''), { code: 'Grading.Failed' })
    delete process.env['LONGHAUL_ASSET_HOSTS']
    // A row may name any address; the host's own networks are none of its business.
    await assert.rejects(grade(withAsset('fee.bin'), ''), { code: 'Grading.Failed' })
  } finally {
    server.close()
  }
})
