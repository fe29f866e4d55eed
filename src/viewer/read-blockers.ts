import { newestDurations } from '../activities/evaluation/write-report.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import type { BlockersPage } from './pages.types.ts'
import { NO_SERVER, type RunSource } from './run-source.ts'

/** What a run waits for now: the one page that no record tells. */
export async function readBlockersPage(
  { store, source }: { store: ArtifactStore; source: RunSource | null },
  run: string,
): Promise<BlockersPage> {
  const answer = source === null ? ({ ok: false, why: NO_SERVER } as const) : await source.blockers(run)
  if (answer.ok) return { kind: 'blockers', run, why: null, open: answer.value, isPlayed: answer.value !== null }
  const isPlayed = (await newestDurations(store, run)) === null
  return { kind: 'blockers', run, why: answer.why, open: null, isPlayed }
}
