/** What a job takes, as an earlier run measured it. */
export interface JobCost {
  seconds: number
  /** Of the processors. A job that waits takes fewer than its seconds. */
  cpuSeconds: number
}

export interface Job {
  name: string
  cost: JobCost
  /** At most one job that holds it runs at a time. */
  holds?: string | undefined
  run(): Promise<void>
}

export interface PlayJobsInput {
  jobs: readonly Job[]
  /** Processors to fill. */
  cores: number
  /** Once it aborts, no job begins. */
  signal: AbortSignal
}

/** Every process computes while it starts, and what detached processes and the container engine use is not measured. */
const LEAST_LOAD = 0.2

/**
 * A job begins where as much of a processor is free, however much it takes itself: one that needs all of them would otherwise wait
 * until nothing else runs.
 */
const ENOUGH = 0.5

/** Jobs beyond it would take memory and engine connections from each other while all of them wait. */
const MOST_JOBS_PER_CORE = 3

/**
 * Runs all jobs, the longest chain first: jobs that hold the same resource are one chain, because each has to wait for the others.
 * A job begins where its share of the processors is free, so jobs that wait run beside jobs that compute.
 * @throws what a job threw, after all that began have ended: none may be running while the stack is taken down
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

/** The first that may begin beside those that run; null where none may. */
export function chooseNext(waiting: readonly Job[], running: readonly Job[], cores: number): Job | null {
  if (running.length >= MOST_JOBS_PER_CORE * cores) return null
  const held = new Set(running.flatMap(({ holds }) => holds ?? []))
  const load = running.reduce((sum, job) => sum + loadOf(job), 0)
  const mayBegin = (job: Job): boolean =>
    (job.holds === undefined || !held.has(job.holds)) && load + Math.min(loadOf(job), ENOUGH) <= cores
  return waiting.find(mayBegin) ?? null
}

/** The share of one processor, or of several, that a job takes. */
function loadOf({ cost }: Job): number {
  return Math.max(LEAST_LOAD, cost.cpuSeconds / Math.max(cost.seconds, 0.1))
}

/** The chain that would end last first, and in a chain its longest job; equal ones by name. */
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
