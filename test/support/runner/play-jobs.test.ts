import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Job, type JobCost, playJobs } from './play-jobs.ts'

interface Script {
  jobs: Job[]
  log: string[]
  add: (name: string, cost: JobCost, holds?: string) => void
  end: (name: string, error?: Error) => Promise<void>
}

/** Jobs that write down when they begin and end; the test ends each. */
function scriptedJobs(): Script {
  const [jobs, log]: [Job[], string[]] = [[], []]
  const open = new Map<string, PromiseWithResolvers<void>>()
  return {
    jobs,
    log,
    add(name, cost, holds) {
      const run = (): Promise<void> => {
        log.push(`${name} begins`)
        const ending = Promise.withResolvers<void>()
        open.set(name, ending)
        return ending.promise
      }
      jobs.push({ name, cost, holds, run })
    },
    async end(name, error) {
      log.push(`${name} ends`)
      if (error === undefined) open.get(name)?.resolve()
      else open.get(name)?.reject(error)
      await new Promise((resolve) => setImmediate(resolve))
    },
  }
}

const signal = new AbortController().signal
const COMPUTES = { seconds: 100, cpuSeconds: 90 }
const WAITS = { seconds: 80, cpuSeconds: 8 }

test('waiting jobs run beside computing ones, of which at most two run on two cores', async () => {
  const { jobs, log, add, end } = scriptedJobs()
  for (const name of ['computes-1', 'computes-2', 'computes-3']) add(name, COMPUTES)
  add('waits', WAITS)
  const played = playJobs({ jobs, cores: 2, signal })
  assert.deepEqual(log, ['computes-1 begins', 'computes-2 begins', 'waits begins'])
  await end('waits')
  assert.equal(log.length, 4, 'both processors are in use')
  await end('computes-1')
  assert.equal(log.at(-1), 'computes-3 begins')
  await end('computes-2')
  await end('computes-3')
  await played
})

test('jobs that share a resource run in turn, and the longer chain starts before longer jobs', async () => {
  const { jobs, log, add, end } = scriptedJobs()
  add('long', { seconds: 100, cpuSeconds: 70 })
  add('stack-1', { seconds: 60, cpuSeconds: 70 }, 'stack')
  add('stack-2', { seconds: 70, cpuSeconds: 10 }, 'stack')
  const played = playJobs({ jobs, cores: 2, signal })
  assert.deepEqual(log, ['stack-2 begins', 'long begins'])
  await end('long')
  await end('stack-2')
  assert.deepEqual(log.slice(2), ['long ends', 'stack-2 ends', 'stack-1 begins'])
  await end('stack-1')
  await played
})

test('a job for all processors starts where half of one is free, before shorter jobs that would fill it', async () => {
  const { jobs, log, add, end } = scriptedJobs()
  add('longest', { seconds: 100, cpuSeconds: 150 })
  add('wide', { seconds: 20, cpuSeconds: 40 })
  add('small', { seconds: 10, cpuSeconds: 4 })
  const played = playJobs({ jobs, cores: 2, signal })
  assert.deepEqual(log, ['longest begins', 'wide begins'])
  await end('longest')
  assert.equal(log.length, 3, 'the wide job uses all processors')
  await end('wide')
  await end('small')
  await played
})

test('the number of waiting jobs is bounded', async () => {
  const { jobs, log, add, end } = scriptedJobs()
  const names = Array.from({ length: 5 }, (_, index) => `job-${index}`)
  for (const name of names) add(name, { seconds: 10, cpuSeconds: 0 })
  const played = playJobs({ jobs, cores: 1, signal })
  assert.equal(log.length, 3)
  for (const name of names) await end(name)
  await played
  assert.equal(log.length, 10)
})

test('the error of a failing job is thrown when all jobs have ended', async () => {
  const { jobs, log, add, end } = scriptedJobs()
  add('breaks', COMPUTES)
  add('beside', WAITS)
  let said: unknown = null
  const played = playJobs({ jobs, cores: 2, signal }).catch((error: unknown) => {
    said = error
  })
  const broken = new Error('broken')
  await end('breaks', broken)
  assert.equal(said, null)
  await end('beside')
  await played
  assert.equal(said, broken)
  assert.equal(log.at(-1), 'beside ends')
})

test('an interrupted run finishes started jobs and starts no other', async () => {
  const { jobs, log, add, end } = scriptedJobs()
  const interrupt = new AbortController()
  add('begun', COMPUTES, 'stack')
  add('later', WAITS, 'stack')
  const played = playJobs({ jobs, cores: 2, signal: interrupt.signal })
  interrupt.abort(new Error('SIGINT'))
  await end('begun')
  await played
  assert.deepEqual(log, ['begun begins', 'begun ends'])
})
