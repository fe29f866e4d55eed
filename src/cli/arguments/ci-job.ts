import { createHash } from 'node:crypto'

/** The CI job that this process runs in, as its system says it. */
export interface CiJob {
  system: 'github' | 'gitlab' | 'other'
  commit: string
  /** Names the pipeline for good: a job of it that is run again has the same one. Null where the system names none. */
  pipeline: string | null
  /** Names this attempt of this job. */
  job: string
  /** Page of the job. */
  url: string | null
}

/** What runs are shared by: a pipeline that is run again, or everything that runs for one commit. */
export type OncePer = 'pipeline' | 'commit'

/** Null outside of CI, and where the system does not say which commit it is about. */
export function readCiJob(env: NodeJS.ProcessEnv = process.env): CiJob | null {
  const value = (name: string): string | null => ((env[name] ?? '') === '' ? null : (env[name] ?? null))
  if (value('GITHUB_ACTIONS') === 'true') {
    const repository = value('GITHUB_REPOSITORY')
    const [run, attempt, server] = ['GITHUB_RUN_ID', 'GITHUB_RUN_ATTEMPT', 'GITHUB_SERVER_URL'].map(value)
    return jobOf({
      system: 'github',
      commit: value('GITHUB_SHA'),
      pipeline: run === null ? null : `${repository ?? ''}/${run}`,
      job: `${run}.${attempt ?? 1}.${value('GITHUB_JOB') ?? ''}`,
      url: server && repository && run ? `${server}/${repository}/actions/runs/${run}/attempts/${attempt ?? 1}` : null,
    })
  }
  if (value('GITLAB_CI') === 'true') {
    const pipeline = value('CI_PIPELINE_ID')
    return jobOf({
      system: 'gitlab',
      commit: value('CI_COMMIT_SHA'),
      pipeline: pipeline === null ? null : `${value('CI_PROJECT_PATH') ?? ''}/${pipeline}`,
      job: value('CI_JOB_ID') ?? String(process.pid),
      url: value('CI_JOB_URL'),
    })
  }
  return jobOf({
    system: 'other',
    commit: value('LONGHAUL_COMMIT'),
    pipeline: value('LONGHAUL_PIPELINE'),
    job: value('LONGHAUL_JOB') ?? String(process.pid),
    url: value('LONGHAUL_JOB_URL'),
  })
}

function jobOf({ commit, ...job }: Omit<CiJob, 'commit'> & { commit: string | null }): CiJob | null {
  return commit === null ? null : { commit, ...job }
}

/**
 * The run of a job: the same for every attempt of it, and for every job that asks for the same work. So a job that is run again joins the
 * run that it started, or shows what that run found.
 */
export function runNameOfJob({
  job,
  oncePer,
  recipe,
  request,
}: {
  job: CiJob
  oncePer: OncePer
  /** Begins the name. */
  recipe: string
  /** Hash of the request: other work has another run. */
  request: string
}): string {
  const scope = oncePer === 'pipeline' ? job.pipeline : null
  const key = createHash('sha256')
    .update(JSON.stringify([job.system, scope, job.commit, request]))
    .digest('hex')
  const name = recipe.replace(/[^A-Za-z0-9._-]/g, '-').replace(/^[^A-Za-z0-9]+/, '')
  return [name.slice(0, 60), 'ci', job.commit.replace(/[^A-Za-z0-9]/g, '').slice(0, 12), key.slice(0, 10)]
    .filter((part) => part !== '')
    .join('-')
}

const CANCELLED_BY = 'CI job '

/** Why a job asks its run to end: another job that waits for the run reads it and takes the run up again. */
export function cancelReasonOfJob({ system, job, url }: CiJob): string {
  return `${CANCELLED_BY}${system} ${job} was interrupted${url === null ? '' : ` (${url})`}`
}

export function isCancelOfJob(reason: string | null): boolean {
  return reason?.startsWith(CANCELLED_BY) ?? false
}
