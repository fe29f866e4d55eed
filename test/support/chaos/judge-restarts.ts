/** What a run that was started again must not repeat: finished work is taken from records. */
import { readdir } from 'node:fs/promises'
import type { ArtifactStore } from '../../../src/contracts/artifacts.types.ts'
import { isValidEpisode } from '../../../src/domain/ledger/episode-fates.ts'
import type { Exchange } from '../recording-proxy.ts'
import { episodesOf } from '../run-records.ts'
import type { AuditEntry } from './audit-log.ts'
import type { MadeVisit } from './visits.ts'

/** A run at the moment of its restart. */
export interface Restart {
  atMs: number
  /** Episodes with a verdict. */
  finished: ReadonlySet<string>
  /** Attempts of the training jobs that had recorded their measurements, by directory. */
  trained: ReadonlyMap<string, number>
}

export async function noteRestart({ store }: { store: ArtifactStore }, run: string): Promise<Restart> {
  const records = await episodesOf(store, run)
  const trainings = (await store.list(`runs/${run}/training/`)).filter((key) => key.endsWith('.json'))
  const trained = new Map<string, number>()
  for (const key of trainings) {
    const job = jobOf(run, key)
    trained.set(job, await attemptsOf(store, job))
  }
  return {
    atMs: Date.now(),
    finished: new Set(records.filter(isValidEpisode).map(({ episode }) => episode)),
    trained,
  }
}

/** `runs/<run>/training/<stage>/0001-00.json` */
function jobOf(run: string, key: string): string {
  const [, stage = '', iteration = '', slice = ''] = /\/training\/(.+)\/(\d+)-(\d+)\.json$/.exec(key) ?? []
  return `runs/${run}/${stage}/iterations/${iteration}/job-${slice}`
}

async function attemptsOf(store: ArtifactStore, job: string): Promise<number> {
  return (await readdir(store.path(`${job}/attempts`)).catch(() => [])).length
}

export interface JudgeRestartsInput {
  store: ArtifactStore
  restarts: readonly Restart[]
  exchanges: readonly Exchange[]
  visits: readonly MadeVisit[]
  entries: readonly AuditEntry[]
}

export async function judgeRestarts(input: JudgeRestartsInput): Promise<string[]> {
  const { store, restarts } = input
  const faults = restarts.flatMap((restart) => repeated(restart, input))
  for (const { trained } of restarts) {
    for (const [job, attempts] of trained) {
      const now = await attemptsOf(store, job)
      if (now > attempts) faults.push(`${job} had finished and was begun ${now - attempts} more times`)
    }
  }
  return [...new Set(faults)]
}

function repeated({ atMs, finished }: Restart, { exchanges, visits, entries }: JudgeRestartsInput): string[] {
  const episodes = new Map(
    entries.flatMap((entry) => (entry.kind === 'opened' ? [[entry.container, entry.episode] as const] : [])),
  )
  const sampled = exchanges.filter(({ startedMs }) => startedMs > atMs).map(({ session }) => session)
  const graded = visits.filter((visit) => visit.atMs > atMs && visit.phase === 'grading').map(({ episode }) => episode)
  const placed = entries.flatMap((entry) => (entry.kind === 'opened' && entry.atMs > atMs ? [entry.episode] : []))
  const executed = entries.flatMap((entry) =>
    entry.kind === 'turn-begins' && entry.atMs > atMs ? [episodes.get(entry.container) ?? ''] : [],
  )
  return Object.entries({ sampled, graded, placed, executed }).flatMap(([what, of]) =>
    [...new Set(of)]
      .filter((episode) => episode !== null && finished.has(episode))
      .map((episode) => `${episode} had finished and was ${what} again after the run was started again`),
  )
}
