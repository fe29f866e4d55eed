/** What `longhaul init` writes, taken by the commands and the CI jobs that it is for: a repository that has Longhaul among its packages. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { useEnvironment } from '../support/environment.ts'
import type { LonghaulConnection } from '../../src/client/index.ts'
import { runGithubJob, runGitlabJob } from '../support/ci/run-job.ts'
import { longhaul } from '../support/command-line.ts'
import { connectToOwnNamespace, needsServer } from '../support/own-namespace.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
let repository: string
let connection: LonghaulConnection
let machine: Record<string, string>

before(async () => {
  if (needsServer !== false) return
  connection = await connectToOwnNamespace('init')
  repository = await mkdtemp(join(tmpdir(), 'longhaul-init-'))
  const address = process.env['LONGHAUL_TEMPORAL_ADDRESS'] ?? ''
  machine = {
    PATH: `${dirname(process.execPath)}:${process.env['PATH'] ?? ''}`,
    HOME: repository,
    LONGHAUL_HOME: join(repository, 'no-stack'),
    TEMPORAL_ADDRESS: address,
    TEMPORAL_NAMESPACE: connection.namespace,
  }
  // The package as npm lays it out, from a directory, so that `npm ci` needs no network.
  const made = join(repository, 'packages/longhaul')
  await mkdir(made, { recursive: true })
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string }
  await writeFile(join(made, 'package.json'), JSON.stringify({ name: 'longhaul', version, type: 'module' }))
  for (const folder of ['bin', 'infra']) await symlink(join(root, folder), join(made, folder))
  await writeFile(
    join(repository, 'package.json'),
    JSON.stringify({ name: 'agents', version: '1.0.0', devDependencies: { longhaul: 'file:packages/longhaul' } }),
  )
  execFileSync('git', ['init', '-q'], { cwd: repository })
  execFileSync('npm', ['install', '--offline', '--package-lock-only', '--no-audit', '--no-fund'], {
    cwd: repository,
    env: machine,
    stdio: 'ignore',
  })
  for (const ci of ['github', 'gitlab']) {
    const { exitCode, stderr } = await longhaul('init', join(repository, 'rl'), '--ci', ci, '--name', `of-${ci}`)
    assert.equal(exitCode, 0, stderr)
  }
})

after(async () => {
  await connection?.close()
  if (repository !== undefined) await rm(repository, { recursive: true, force: true })
})

test('the named commands accept the recipe and the schedules, and a dry run creates no schedule', {
  skip: needsServer,
}, async (t) => {
  useEnvironment(t, { LONGHAUL_NAMESPACE: connection.namespace })
  const checked = await longhaul('recipe', 'check', join(repository, 'rl/of-github.yaml'))
  assert.deepEqual([checked.exitCode, checked.stderr], [0, ''])
  const applied = await longhaul('schedule', 'apply', join(repository, 'rl/schedules.yaml'), '--dry-run')
  assert.equal(applied.exitCode, 0, applied.stderr)
  assert.match(
    applied.stdout,
    /^would be created of-github-nightly: evaluate of-github-[0-9a-f]{8}, 0 2 \* \* \* UTC$/m,
  )
  assert.equal((await longhaul('schedule', 'list')).stdout.trim(), 'no schedules')
})

test('the GitHub job starts an evaluation of the recipe with the package of the repository', {
  skip: needsServer,
}, async () => {
  const ran = await runGithubJob({
    file: await readFile(join(repository, '.github/workflows/longhaul.yml'), 'utf8'),
    job: 'start',
    workspace: repository,
    repository,
    machine,
    contexts: {
      github: {
        sha: 'a'.repeat(40),
        repository: 'acme/agents',
        run_id: '1',
        run_attempt: '1',
        job: 'start',
        ref: 'refs/heads/main',
        server_url: 'https://github.example',
        event_name: 'workflow_dispatch',
        event: { inputs: {} },
      },
      vars: {
        TEMPORAL_ADDRESS: machine['TEMPORAL_ADDRESS'] ?? '',
        TEMPORAL_NAMESPACE: machine['TEMPORAL_NAMESPACE'] ?? '',
      },
    },
  })
  assert.equal(ran.exitCode, 0, ran.steps.map(({ log }) => log).join('\n'))
  assert.ok(ran.steps.some(({ name }) => name.startsWith('npm ci')))
  const workflowId = ran.outputs['run'] ?? ''
  assert.match(workflowId, /^eval\/of-github-ci-/)
  // No worker of this namespace would end it.
  await connection.client.workflow.getHandle(workflowId).terminate('the test is over')
})

test('the GitLab job starts the same evaluation', { skip: needsServer }, async () => {
  const ran = await runGitlabJob({
    file: await readFile(join(repository, '.gitlab-ci.yml'), 'utf8'),
    job: 'start',
    workspace: repository,
    repository,
    machine,
    variables: { CI_COMMIT_SHA: 'b'.repeat(40), CI_PIPELINE_ID: '2', CI_JOB_NAME: 'start', CI_PROJECT_PATH: 'a/b' },
  })
  assert.equal(ran.exitCode, 0, ran.steps.map(({ log }) => log).join('\n'))
  const workflowId = ran.outputs['LONGHAUL_RUN'] ?? ''
  assert.match(workflowId, /^eval\/of-gitlab-ci-/)
  // No worker of this namespace would end it.
  await connection.client.workflow.getHandle(workflowId).terminate('the test is over')
})
