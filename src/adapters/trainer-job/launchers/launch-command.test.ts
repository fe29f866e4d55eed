/** What of a worker's environment its trainer sees. The interpreter is a script that writes it down. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { useEnvironment } from '../../../../test/support/environment.ts'
import { exampleAttempt, noSlurmOptions } from '../../../../test/support/launcher-examples.ts'
import { findSlurm, type Slurm, startSlurm, until } from '../../../../test/support/slurm.ts'
import { claimFence } from '../job/attempt-files.ts'
import type { Attempt, Launcher } from './launcher.types.ts'
import { createProcessLauncher } from './process-launcher.ts'
import { createSlurmLauncher } from './slurm-launcher.ts'
import { submissionEnvironment, trainerEnvironment } from './launch-command.ts'

const SECRETS = ['LONGHAUL_S3_SECRET_KEY', 'TEMPORAL_API_KEY', 'HF_TOKEN', 'SOME_SITE_PASSWORD']
const SETTINGS = { NCCL_DEBUG: 'INFO', LC_ALL: 'C.UTF-8', OMP_NUM_THREADS: '3' }

const slurmHere = await findSlurm()
const root = await mkdtemp(join(tmpdir(), 'trainer-environment-'))
useEnvironment({ after })
after(() => rm(root, { recursive: true, force: true }))
const python = join(root, 'python')
await writeFile(python, '#!/bin/sh\nexec env >"$NOTES"\n', { mode: 0o755 })

/** Launches one attempt with secrets in the worker's environment. @returns the environment of its trainer */
async function environmentOf(create: (env: Record<string, string>) => Launcher, ranksPerNode = 1) {
  const home = await mkdtemp(join(root, 'job-'))
  const [notes, artifactRoot, jobDirectory] = ['notes', 'store', 'store/job'].map((name) => join(home, name)) as [
    string,
    string,
    string,
  ]
  const { job } = exampleAttempt({ nodes: 1, ranksPerNode })
  const attempt: Attempt = { job: { ...job, artifactRoot, jobDirectory }, fence: 1 }
  await mkdir(jobDirectory, { recursive: true })
  await claimFence({ jobDirectory, fence: 1, spec: {} })
  for (const name of SECRETS) process.env[name] = 'not-for-trainers'
  Object.assign(process.env, SETTINGS)
  try {
    await create({ NOTES: notes }).launch(attempt)
  } finally {
    for (const name of [...SECRETS, ...Object.keys(SETTINGS)]) delete process.env[name]
  }
  await until(() => existsSync(notes))
  let text = ''
  await until(async () => {
    text = await readFile(notes, 'utf8')
    return text.includes('LONGHAUL_LAUNCHER_HANDLE=')
  })
  assert.ok(!text.includes('not-for-trainers'), text)
  return Object.fromEntries(
    text.split('\n').map((line) => [line.split('=')[0] ?? '', line.slice(line.indexOf('=') + 1)]),
  )
}

function assertUsable(seen: Record<string, string>): void {
  for (const name of ['PATH', 'HOME']) assert.ok(seen[name], name)
  for (const [name, value] of Object.entries(SETTINGS)) assert.equal(seen[name], value)
}

for (const ranks of [1, 2]) {
  test(`a process with ${ranks} ranks gets no key of its worker`, async () => {
    assertUsable(await environmentOf((env) => createProcessLauncher({ python, env }), ranks))
  })
}

describe('slurm', { skip: 'missing' in slurmHere ? slurmHere.missing : false }, () => {
  let slurm: Slurm
  before(async () => {
    slurm = await startSlurm('root' in slurmHere ? slurmHere.root : '')
    Object.assign(process.env, slurm.environment)
  })
  after(() => slurm?.stop())

  const create = (extra: string[]) => (env: Record<string, string>) =>
    createSlurmLauncher({
      options: { ...noSlurmOptions, extra },
      command: { python, env },
      pollMs: 200,
      settleMs: 500,
    })

  test('a batch job gets no key of its submitter', async () => {
    assertUsable(await environmentOf(create([])))
  })

  test('a batch job whose site exports a few names still gets what its launcher names', async () => {
    const seen = await environmentOf(create(['--export=HOME,PATH,LD_LIBRARY_PATH']))
    assert.equal(seen['OMP_WAIT_POLICY'], 'PASSIVE')
    assert.equal(seen['NCCL_DEBUG'], undefined)
  })
})

test('names that sound like a key are withheld, whatever they begin with', () => {
  const settings = { CUDA_VISIBLE_DEVICES: '0', NCCL_IB_PKEY: '3', PATH: '/bin', PYTHONUTF8: '1' }
  const others = { CUDA_LICENSE_KEY: 'k', TORCH_APIKEY: 'k', NCCL_AUTH: 'a', OTHER: 'o', PYTHON_TOKEN: 't' }
  assert.deepEqual(trainerEnvironment({ ...settings, ...others }), settings)
})

test('sbatch gets its site’s settings, and not those of a job that the worker runs in', () => {
  const env = { SBATCH_PARTITION: 'gpu', SLURM_CONF: '/c', SLURM_JWT: 'j', SLURM_JOB_ID: '1', SLURM_CPUS_PER_TASK: '2' }
  assert.deepEqual(submissionEnvironment(env), { SBATCH_PARTITION: 'gpu', SLURM_CONF: '/c', SLURM_JWT: 'j' })
})
