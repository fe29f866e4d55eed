import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { useEnvironment } from '../../../../test/support/environment.ts'
import { python, pythonEnvironment, withoutPython } from '../../../../test/support/python.ts'
import { findSlurm, hasAccounts, type Slurm, startSlurm, until } from '../../../../test/support/slurm.ts'
import { launchFirst, LONG_JOB, makeJobStore, prepareTestJob } from '../../../../test/support/training-jobs.ts'
import { failureOf } from '../job/attempt-report.ts'
import { followAttempt } from '../job/follow-attempt.ts'
import type { PreparedJob } from '../job/job-spec.ts'
import { runJob } from '../job/run-job.ts'
import { createSlurmLauncher } from './slurm-launcher.ts'

const slurmHere = await findSlurm()
const root = 'root' in slurmHere ? slurmHere.root : ''
const withoutSlurm = 'missing' in slurmHere ? slurmHere.missing : !hasAccounts(root) && 'this Slurm has no slurmdbd'

/** A site whose slurmdbd keeps accounts in MariaDB, and whose controller forgets ended jobs within seconds. */
describe('slurm launcher of a site with accounts', { skip: withoutPython || withoutSlurm }, () => {
  const signal = new AbortController().signal
  const launcher = createSlurmLauncher({
    options: null,
    command: { python: python ?? '', env: { PYTHONPATH: pythonEnvironment.PYTHONPATH } },
    pollMs: 200,
    settleMs: 500,
  })
  let home = ''
  let slurm: Slurm
  let prepare: (run: string, trajectories: number) => Promise<PreparedJob>

  before(async () => {
    home = await mkdtemp(join(tmpdir(), 'slurm-jobs-'))
    const { store, base } = await makeJobStore(home)
    const trainer = { launcher: 'slurm' as const, stallS: 600, timeoutS: 900 }
    prepare = (run, trajectories) => prepareTestJob({ store, policy: base, run, trajectories, trainer })
    slurm = await startSlurm(root, { accounts: true })
    Object.assign(process.env, slurm.environment)
  })
  after(async () => {
    await slurm?.stop()
    await rm(home, { recursive: true, force: true })
  })
  useEnvironment({ after })

  test('accounts tell how a job ended that the controller has forgotten; a cancel is no exit with 0', async () => {
    const done = await prepare('done', 2)
    assert.equal((await runJob({ job: done, launcher, attempt: 1, signal })).steps, 2)
    const cancelled = await launched('cancelled')
    // So that the trainer cannot report it.
    await slurm.command('scancel', `--jobname=${cancelled.jobId}`, '--signal=KILL', '--full')
    await until(async () => (await slurm.command('squeue', '--noheader', '--states=all', '--format=%i')) === '')

    assert.deepEqual(await launcher.look({ job: done, fence: 1 }), {
      kind: 'over',
      code: 0,
      how: 'COMPLETED for Slurm',
    })
    // Its accounts say `CANCELLED by 0` and `0:0`.
    await assert.rejects(follow(cancelled), {
      code: 'Trainer.Failed',
      message: /CANCELLED by user 0 for Slurm → somebody cancelled .*, without a report/,
      details: { exit: 'none' },
    })
  })

  async function launched(run: string): Promise<PreparedJob> {
    const job = await prepare(run, LONG_JOB)
    await launchFirst(job, launcher)
    const states = ['squeue', '--noheader', `--name=${job.jobId}`, '--format=%T'] as const
    await until(async () => (await slurm.command(...states)) === 'RUNNING')
    return job
  }

  async function follow(job: PreparedJob): Promise<void> {
    throw failureOf(await followAttempt({ job, launcher, fence: 1, signal }), {})
  }
})
