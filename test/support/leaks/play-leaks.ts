/**
 * Sandbox workers die by SIGKILL at random moments while they open, play, capture, close and grade; at the end all of them die at
 * once. The next worker must remove all leftovers in the engine. The report has the time that this took: the bench compares it with
 * the lease and a minute, a test on a busy machine does not.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { WorkflowNotFoundError } from '@temporalio/client'
import { removeContainer } from '../../../src/adapters/docker/container/create-container.ts'
import { seededRandom } from '../../../src/domain/statistics/bootstrap.ts'
import type { LonghaulConnection } from '../../../src/client/index.ts'
import { namespaceIdOf } from '../../../src/workers/workflow-owners.ts'
import { eventually, HANG_MS } from '../hang.ts'
import type { PipelineWorld } from '../pipeline-world.ts'
import { type KillableWorker, startSandboxWorker } from './killable-worker.ts'
import { createLeakLoad, type LeakLoad } from './leak-load.ts'
import { processesOf, watchOrphaned } from './orphan-watch.ts'
import type { LeakWorld } from './leak-stack.ts'

export interface LeakReport {
  kills: number
  seed: number
  leaseS: number
  wallS: number
  episodesStarted: number
  /** Containers alive at the moment of a kill, by role, summed over the kills. */
  hit: Record<string, number>
  /** By role. */
  containersSeen: Record<string, number>
  /** Removals by reapers, by reason. */
  reaped: Record<string, number>
  /** Longest time that a resource without an owner stayed while workers were being killed. */
  longestOverdueS: number
  /** From the death of all workers and owners until the engine contains nothing of Longhaul. */
  cleanAfterS: number
  /** File descriptors of an undisturbed worker: idle, then idle again after episodes. */
  descriptors: { before: number; after: number; episodes: number }
  leaks: string[]
}

export interface PlayLeaksInput {
  world: LeakWorld
  kills: number
  seed: number
  leaseS: number
  /** Episodes of the undisturbed worker at the end. */
  quietEpisodes: number
  say: (line: string) => void
  signal: AbortSignal
}

/** This many open episodes keep a worker busy although killed ones wait half a minute for their next attempt. */
const MAX_OPEN = 40

export async function playLeaks(input: PlayLeaksInput): Promise<LeakReport> {
  const { world, kills, seed, leaseS, quietEpisodes, say, signal } = input
  const { stack, connection } = world
  const startedAt = Date.now()
  const namespaceId = (await namespaceIdOf(connection.client.connection, stack.namespace)) ?? ''
  const load = await createLeakLoad(world)
  const watch = watchOrphaned(world, namespaceId)
  const env = { ...stack.environment, LONGHAUL_LEASE_S: String(leaseS) }
  const workers: KillableWorker[] = []
  const startWorker = (): KillableWorker => {
    const worker = startSandboxWorker(env)
    workers.push(worker)
    return worker
  }
  const hit: Record<string, number> = {}
  const random = seededRandom(seed)
  try {
    let isOver = false
    const feeding = feed({ load, world, random, signal, until: () => isOver })
    const count = async (): Promise<void> => {
      for (const { role, state } of await watch.present()) {
        if (state === 'running') hit[role] = (hit[role] ?? 0) + 1
      }
    }
    for (let kill = 1; kill <= kills; kill++) {
      signal.throwIfAborted()
      const worker = startWorker()
      // Sometimes kills the worker while it starts, during its first sweep.
      if (random() < 0.9) await worker.ready
      // Mostly soon, during opening and playing; sometimes late enough to be during grading.
      await sleep(random() ** 2 * 9_000, undefined, { signal })
      await count()
      await worker.kill()
      if (kill % 10 === 0) say(`${kill} kills, ${load.started()} episodes, containers met ${JSON.stringify(hit)}`)
    }
    const last = startWorker()
    await last.ready
    // A machine can be so busy that no earlier worker lived until a gate's container ran.
    const isGrading = async (): Promise<boolean> =>
      (await watch.present()).some(({ role, state }) => role === 'gate' && state === 'running')
    for (const deadline = Date.now() + HANG_MS; Date.now() < deadline && !(await isGrading()); ) {
      await sleep(200, undefined, { signal })
    }
    isOver = true
    await feeding
    await count()

    say('everything dies: worker, server, control')
    await Promise.all([last.kill(), stack.kill('temporal'), stack.kill('worker-control')])
    const open = await eventually(() => load.open())
    for (const id of open) await eventually(() => terminate(connection, id))
    const orphans = (await watch.present()).length
    const diedAt = Date.now()
    const cleaner = startWorker()
    await cleaner.ready
    let left = await watch.present()
    while (left.length > 0 && Date.now() - diedAt < HANG_MS) {
      await sleep(500, undefined, { signal })
      left = await watch.present()
    }
    const cleanAfterS = (Date.now() - diedAt) / 1000
    say(
      `${open.length} owners terminated, ${orphans} containers without owner; clean after ${cleanAfterS.toFixed(1)} s`,
    )

    const descriptors = await playQuietly({ worker: cleaner, load, episodes: quietEpisodes })
    await watch.stop()
    const leaks = [...left, ...(await watch.present())].map(({ kind, name }) => `${kind} ${name}`)
    const processes = await goneAtLast(() => processesOf(watch.seen()))
    leaks.push(...processes.map((process) => `process ${process}`))
    if (descriptors.after > descriptors.before + MAX_MORE_DESCRIPTORS)
      leaks.push(`descriptors ${JSON.stringify(descriptors)}`)
    return {
      kills,
      seed,
      leaseS,
      wallS: (Date.now() - startedAt) / 1000,
      episodesStarted: load.started(),
      hit,
      containersSeen: countBy([...watch.seen().values()]),
      reaped: countBy(workers.flatMap((worker) => worker.removed().map(({ why }) => why))),
      longestOverdueS: watch.longestOverdueS(),
      cleanAfterS,
      descriptors,
      leaks,
    }
  } finally {
    await watch.stop()
    await Promise.all(workers.map((worker) => worker.kill()))
    // The report already contains the leaks; after a failure only this code removes them.
    for (const { kind, name } of await watch.present()) {
      if (kind === 'container') await removeContainer({ engine: world.engine, name })
    }
  }
}

/** A process that is still there after this time is never removed. */
const GONE_MS = 5 * 60_000
/** Number of consecutive checks without a lower count. */
const SETTLED_LOOKS = 20
/** Connections are pooled and opened on demand; a leak would be one or two for each episode. */
const MAX_MORE_DESCRIPTORS = 10

/** Starts episodes, cancels some and terminates some, so that owners end in every way. */
async function feed(input: {
  load: LeakLoad
  world: PipelineWorld
  random: () => number
  signal: AbortSignal
  until: () => boolean
}): Promise<void> {
  const { load, world, random, signal, until } = input
  while (!until() && !signal.aborted) {
    await sleep(300)
    // A busy server may refuse the request; the next round tries again.
    const open = await load.open().catch(() => null)
    if (open === null) continue
    // The gate ends when a check has lost its three attempts.
    if (!open.some((id) => id.includes('/gate/'))) await load.startGate().catch(() => undefined)
    if (open.length < MAX_OPEN) await load.start().catch(() => undefined)
    const victim = open[Math.floor(random() * open.length)]
    if (victim === undefined || random() > 0.08) continue
    const handle = world.connection.client.workflow.getHandle(victim)
    await (random() < 0.5 ? handle.cancel() : handle.terminate('at random')).catch(() => undefined)
  }
}

async function playQuietly({ worker, load, episodes }: { worker: KillableWorker; load: LeakLoad; episodes: number }) {
  const drain = async (): Promise<number> => {
    for (const deadline = Date.now() + HANG_MS; (await load.open()).length > 0; await sleep(500)) {
      if (Date.now() > deadline) throw new Error('Expected the undisturbed episodes to end')
    }
    return settled(() => worker.descriptors())
  }
  // The first episodes open what stays open: connections, native threads, modules.
  for (let warm = 0; warm < 4; warm++) await load.start()
  const before = await drain()
  for (let episode = 0; episode < episodes; episode++) await load.start()
  return { before, after: await drain(), episodes }
}

/** Returns what never disappears; a shim may outlive its container for a moment. */
async function goneAtLast(find: () => string[]): Promise<string[]> {
  for (const deadline = Date.now() + GONE_MS; Date.now() < deadline; await sleep(500))
    if (find().length === 0) return []
  return find()
}

/** The count once it no longer falls: streams close a moment after their containers. */
async function settled(count: () => number): Promise<number> {
  let [lowest, looks] = [count(), 0]
  while (looks < SETTLED_LOOKS) {
    await sleep(500)
    const now = count()
    looks = now < lowest ? 0 : looks + 1
    lowest = Math.min(lowest, now)
  }
  return lowest
}

function countBy(words: string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1
  return counts
}

/** It was listed as open, but may have ended by itself since. */
async function terminate({ client }: LonghaulConnection, workflowId: string): Promise<void> {
  try {
    await client.workflow.getHandle(workflowId).terminate('the end')
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error
  }
}
