/** The cost of a job, as measured by an earlier run. */
export interface JobCost {
  seconds: number
  /** CPU time. A job that waits uses less than its seconds. */
  cpuSeconds: number
}

export interface Job {
  name: string
  cost: JobCost
  /** At most one job that holds this resource runs at a time. */
  holds?: string | undefined
  run(): Promise<void>
}

export interface PlayJobsInput {
  jobs: readonly Job[]
  /** Number of CPUs to fill. */
  cores: number
  /** After it aborts, no job starts. */
  signal: AbortSignal
}

/** Every process computes while it starts, and detached processes and the container engine are not measured. */
const LEAST_LOAD = 0.2

/**
 * A job starts if this share of a CPU is free, regardless of its own load: a job that needs all of them would otherwise wait until no
 * other job runs.
 */
const ENOUGH = 0.5

/** More jobs would compete for memory and engine connections while all of them wait. */
const MOST_JOBS_PER_CORE = 3

/**
 * Runs all jobs, the longest chain first: jobs that hold the same resource form a chain, because each waits for the others. A job
 * starts when enough CPU is free, so waiting jobs run beside computing ones.
 * @throws a job's error, after all started jobs have ended, because none may run while the stack is taken down
 */
export async function playJobs({ jobs, cores, signal }: PlayJobsInput): Promise<void> {
  const waiting = byUrgency(jobs)
  const running = new Map<Job, Promise<void>>()
  const errors: unknown[] = []
  for (;;) {
    for (let job = chooseNext(waiting, [...running.keys()], cores); job !== null && !signal.aborted; ) {
      const begun = job
      waiting.splice(waiting.indexOf(begun), 1)
      const work = begun
        .run()
        .catch((error: unknown) => void errors.push(error))
        .finally(() => running.delete(begun))
      running.set(begun, work)
      job = chooseNext(waiting, [...running.keys()], cores)
    }
    if (running.size === 0) break
    await Promise.race(running.values())
  }
  if (errors.length > 0) throw errors[0]
}

/** The first job that may start beside the running ones; null if none may. */
export function chooseNext(waiting: readonly Job[], running: readonly Job[], cores: number): Job | null {
  if (running.length >= MOST_JOBS_PER_CORE * cores) return null
  const held = new Set(running.flatMap(({ holds }) => holds ?? []))
  const load = running.reduce((sum, job) => sum + loadOf(job), 0)
  const mayBegin = (job: Job): boolean =>
    (job.holds === undefined || !held.has(job.holds)) && load + Math.min(loadOf(job), ENOUGH) <= cores
  return waiting.find(mayBegin) ?? null
}

/** The number of CPUs, or the share of one, that a job uses. */
function loadOf({ cost }: Job): number {
  return Math.max(LEAST_LOAD, cost.cpuSeconds / Math.max(cost.seconds, 0.1))
}

/** Sorts by the chain that would end last, in a chain by the longest job, and equal ones by name. */
function byUrgency(jobs: readonly Job[]): Job[] {
  const chains = new Map<string, number>()
  for (const { holds, cost } of jobs) {
    if (holds !== undefined) chains.set(holds, (chains.get(holds) ?? 0) + cost.seconds)
  }
  const left = ({ holds, cost }: Job): number => (holds === undefined ? cost.seconds : (chains.get(holds) ?? 0))
  return jobs.toSorted(
    (a, b) => left(b) - left(a) || b.cost.seconds - a.cost.seconds || (a.name < b.name ? -1 : Number(a.name > b.name)),
  )
}
