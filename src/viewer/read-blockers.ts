import type { BlockersPage } from './pages.types.ts'
import { NO_SERVER, type RunSource } from './run-source.ts'

/** What a run waits for now: the one page that no record tells. */
export async function readBlockersPage(source: RunSource | null, run: string): Promise<BlockersPage> {
  const answer = source === null ? ({ ok: false, why: NO_SERVER } as const) : await source.blockers(run)
  return answer.ok
    ? { kind: 'blockers', run, why: null, open: answer.value }
    : { kind: 'blockers', run, why: answer.why, open: null }
}
