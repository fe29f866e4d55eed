import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cancelReasonOfJob, type CiJob, isCancelOfJob, readCiJob, runNameOfJob } from './ci-job.ts'

const GITHUB = {
  GITHUB_ACTIONS: 'true',
  GITHUB_SHA: '0123456789abcdef0123456789abcdef01234567',
  GITHUB_REPOSITORY: 'acme/agents',
  GITHUB_RUN_ID: '77',
  GITHUB_RUN_ATTEMPT: '1',
  GITHUB_JOB: 'evaluate',
  GITHUB_SERVER_URL: 'https://github.example',
}
const GITLAB = {
  GITLAB_CI: 'true',
  CI_COMMIT_SHA: GITHUB.GITHUB_SHA,
  CI_PROJECT_PATH: 'acme/agents',
  CI_PIPELINE_ID: '77',
  CI_JOB_ID: '1',
}

function nameIn(
  env: NodeJS.ProcessEnv,
  change: { oncePer?: 'pipeline' | 'commit'; recipe?: string; request?: string } = {},
): string {
  const job = readCiJob(env)
  assert.ok(job)
  return runNameOfJob({ job, oncePer: 'pipeline', recipe: 'nightly', request: 'r', ...change })
}

test('a job that is run again has the run of its first attempt, on either system', () => {
  assert.equal(nameIn(GITHUB), nameIn({ ...GITHUB, GITHUB_RUN_ATTEMPT: '2' }))
  assert.equal(nameIn(GITLAB), nameIn({ ...GITLAB, CI_JOB_ID: '2' }))
  assert.match(nameIn(GITHUB), /^nightly-ci-0123456789ab-[0-9a-f]{10}$/)
})

const OTHERS: [string, string][] = [
  ['the next pipeline of the same commit', nameIn({ ...GITHUB, GITHUB_RUN_ID: '78' })],
  ['another commit', nameIn({ ...GITHUB, GITHUB_SHA: `${GITHUB.GITHUB_SHA.slice(0, -1)}8` })],
  ['another repository', nameIn({ ...GITHUB, GITHUB_REPOSITORY: 'acme/other' })],
  ['another request', nameIn(GITHUB, { request: 's' })],
  ['the other system', nameIn(GITLAB)],
]
for (const [what, name] of OTHERS) test(`${what} has a run of its own`, () => assert.notEqual(name, nameIn(GITHUB)))

test('once per commit: pipelines of one commit share a run, and commits do not', () => {
  const once = { oncePer: 'commit' } as const
  assert.equal(nameIn(GITHUB, once), nameIn({ ...GITHUB, GITHUB_RUN_ID: '78' }, once))
  assert.notEqual(nameIn(GITHUB, once), nameIn({ ...GITHUB, GITHUB_SHA: 'f'.repeat(40) }, once))
})

test('any recipe and commit give a name that a run may have', () => {
  const env = { LONGHAUL_COMMIT: '../$(x) é' }
  for (const recipe of ['', '../x', 'a'.repeat(300), '-é/']) {
    assert.match(nameIn(env, { recipe }), /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/)
  }
})

test('outside of CI, and without a commit, there is no job', () => {
  assert.equal(readCiJob({}), null)
  assert.equal(readCiJob({ GITHUB_ACTIONS: 'true', GITHUB_SHA: '' }), null)
  assert.equal(readCiJob({ LONGHAUL_COMMIT: 'abc' })?.pipeline, null)
})

test('a cancel by a job is told from a person’s', () => {
  const job = readCiJob(GITHUB) as CiJob
  assert.equal(
    cancelReasonOfJob(job),
    'CI job github 77.1.evaluate was interrupted (https://github.example/acme/agents/actions/runs/77/attempts/1)',
  )
  assert.ok(isCancelOfJob(cancelReasonOfJob(job)))
  assert.ok(!isCancelOfJob(null))
  assert.ok(!isCancelOfJob('too slow'))
})
