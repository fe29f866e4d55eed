import { createHash } from 'node:crypto'

/** The CI job of this process, from its system's variables. */
export interface CiJob {
  system: 'github' | 'gitlab' | 'other'
  commit: string
  /** Permanent id of the pipeline: a job that is run again keeps it. Null if the system names none. */
  pipeline: string | null
  /** Id of this attempt of the job. */
  job: string
  /** Page of the job. */
  url: string | null
}

/** Which jobs share a run: those of one pipeline, also if it is run again, or those of one commit. */
export type OncePer = 'pipeline' | 'commit'

/** Null outside CI, or if the system does not name the commit. */
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
 * Name of a job's run: the same for every attempt of the job, and for every job with the same request. A job that is run again therefore
 * joins the run that it started, or shows that run's result.
 */
export function runNameOfJob({
  job,
  oncePer,
  recipe,
  request,
}: {
  job: CiJob
  oncePer: OncePer
  /** Start of the name. */
  recipe: string
  /** Hash of the request: a different request has a different run. */
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

/** The reason with which a job cancels its run: another job that waits for the run recognises it and restarts the run. */
export function cancelReasonOfJob({ system, job, url }: CiJob): string {
  return `${CANCELLED_BY}${system} ${job} was interrupted${url === null ? '' : ` (${url})`}`
}

export function isCancelOfJob(reason: string | null): boolean {
  return reason?.startsWith(CANCELLED_BY) ?? false
}
