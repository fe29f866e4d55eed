/** The container tasks that gates and grading are tested with are what they claim to be. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { importSuite } from '../../src/adapters/datasets/import-suite.ts'
import { type Engine, connectEngine } from '../../src/adapters/docker/engine/engine.ts'
import { createDockerSandboxHost, type DockerSandboxHost } from '../../src/adapters/docker/sandbox/sandbox-host.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import {
  buildLayoutImages,
  type LayoutTask,
  layoutTasks,
  removeLayoutImages,
  writeLayoutRows,
} from '../support/layouts/layout-tasks.ts'
import { LIMITS, never } from './sandbox-fixture.ts'

const folder = mkdtempSync(join(tmpdir(), 'longhaul-test-'))
const all = layoutTasks({ series: process.pid })
const used = (['conda', 'plain'] as const).map((layout) => all.find((task) => task.layout === layout) as LayoutTask)
let engine: Engine
let host: DockerSandboxHost

before(async () => {
  engine = await connectEngine()
  host = createDockerSandboxHost({ engine, hostId: 'test-host', hostQueue: 'sandbox.test' })
  await buildLayoutImages({ engine, cacheDir: join(stackPaths().cacheDir, 'images'), tasks: used })
})

after(async () => {
  host.dispose()
  await removeLayoutImages({ engine, tasks: used })
  rmSync(folder, { recursive: true })
})

/** What a command prints in the task's image. */
async function printed({ task }: LayoutTask, command: string): Promise<string> {
  const { log } = await host.grade(
    {
      run: `test-layouts-${process.pid}`,
      episode: `layouts/${task.taskId}`,
      owner: 'test',
      role: 'grader',
      image: task.image,
      repoDir: task.repoDir,
      patch: new Uint8Array(),
      applyCommands: [],
      evalScript: command,
      timeoutMs: 60_000,
      limits: LIMITS,
      leaseMs: 120_000,
    },
    never,
  )
  return Buffer.from(log).toString()
}

test('the importer accepts every row of all layouts and profiles', async () => {
  const path = join(folder, 'rows.jsonl')
  await writeLayoutRows(path, all)
  const { suite } = await importSuite({ source: { kind: 'file', path } })
  assert.deepEqual(suite.refused, [])
  assert.deepEqual(suite.profiles, { 'swebench-4.1': 5, 'swebench-5': 4, 'fork-4.0.3': 13, 'rebench-v2': 10 })
  assert.equal(suite.unsupported, 0)
  assert.equal(new Set(all.map(({ task }) => task.image)).size, 32)
})

test('conda: .bashrc or the script alone activates the environment, and HEAD is a commit "SWE-bench"', async () => {
  const conda = used[0] as LayoutTask
  const lines = await printed(
    conda,
    [
      'python3 -c "import bedrock" 2>/dev/null || echo not outside',
      "bash -i -c 'which pytest' 2>/dev/null",
      'source /opt/miniconda3/bin/activate',
      'conda activate testbed',
      'python -c "import bedrock, sys; print(sys.prefix)"',
      'git log --format=%s',
      'git rev-parse HEAD~1',
      'git status --porcelain',
    ].join('\n'),
  )
  const environment = '/opt/miniconda3/envs/testbed'
  assert.deepEqual(lines.trim().split('\n').slice(-6), [
    'not outside',
    `${environment}/bin/pytest`,
    environment,
    'SWE-bench',
    'Open the shop',
    conda.task.baseCommit,
  ])
})

test('plain: the repository is in a folder of its own name at the base commit, without an environment', async () => {
  const plain = used[1] as LayoutTask
  assert.equal(plain.task.repoDir, '/shop-0')
  const text = await printed(plain, 'pwd; git rev-parse HEAD; git status --porcelain; ls /opt')
  assert.equal(text, `/shop-0\n${plain.task.baseCommit}\n`)
})
