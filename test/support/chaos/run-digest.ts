/** A finished run reduced to what a fault must not change: identities, actions, observations, verdicts and ledger lines. */
import type { ArtifactStore } from '../../../src/contracts/artifacts.types.ts'
import type { EpisodeRecord, VerdictRecord } from '../../../src/contracts/episodes.types.ts'
import { episodeKeys } from '../../../src/contracts/keys.ts'
import type { Ledger } from '../../../src/domain/ledger.ts'
import { sha256Of } from '../../../src/adapters/artifacts/record-text.ts'
import { readWholeTurns } from '../../../src/activities/host/transcript.ts'
import { readIfWhole } from '../../../src/activities/whole-record.ts'
import { episodesOf } from '../run-records.ts'

export interface EpisodeDigest {
  /** `<stage>/<iteration>/<task>/<index>` */
  id: string
  disposition: string
  failure: string | null
  /** One text a turn; equal texts mean equal turns. */
  turns: string[]
  /** Null where there is none. */
  verdict: string | null
  patch: string | null
  result: string
}

export interface RunDigest {
  episodes: EpisodeDigest[]
  ledgers: string[]
}

export async function digestRun(store: ArtifactStore, run: string): Promise<RunDigest> {
  const records = await episodesOf(store, run)
  const episodes = await Promise.all(records.map((record) => digestEpisode(store, run, record)))
  const keys = (await store.list(`runs/${run}/`)).filter((key) => key.endsWith('/ledger.json'))
  const ledgers = await Promise.all(
    keys.map(async (key) => {
      const { stage, iteration, entries } = (await store.readRecord<Ledger>(key)) as Ledger
      return plain(run, { stage, iteration, entries })
    }),
  )
  return { episodes, ledgers }
}

async function digestEpisode(store: ArtifactStore, run: string, record: EpisodeRecord): Promise<EpisodeDigest> {
  const { episode, disposition, failure } = record
  const turns = (await readWholeTurns(store, episode)).flatMap(({ action, observation }) => {
    if (observation === null) return []
    const { token: _, sampledAtMs: __, sampleMs: ___, ...sampled } = action
    const { observedAtMs: ____, execution, ...seen } = observation
    const ended = execution === null ? null : { ...execution, wallMs: 0 }
    return [plain(run, { sampled, seen, ended })]
  })
  const verdict = await readIfWhole<VerdictRecord>(store, episodeKeys.verdict(episode))
  const patch = await store.read(episodeKeys.patch(episode))
  return {
    id: episode.slice(run.length + 1),
    disposition,
    failure,
    turns,
    verdict: verdict === null ? null : plain(run, lastingPart(verdict)),
    patch: patch === null ? null : sha256Of(patch),
    result: plain(run, record),
  }
}

/** What another grading of the same patch finds again: not the machine, nor the log, which says how long tests took. */
function lastingPart({ provenance, ...verdict }: VerdictRecord): object {
  const kept = provenance === undefined ? {} : { provenance: { ...provenance, machine: null, logSha256: '' } }
  return { ...verdict, ...kept, gradeMs: 0, image: '' }
}

/** The run's own name is not compared, nor is the hash of a trained policy, which is made from it. */
function plain(run: string, value: object): string {
  return JSON.stringify(value)
    .replaceAll(run, 'RUN')
    .replaceAll(/\bv(\d{6})-[0-9a-f]{8}\b/g, 'v$1')
}
