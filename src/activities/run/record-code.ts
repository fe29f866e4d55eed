import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { CodeRecord } from '../../contracts/costs.types.ts'
import { runKeys } from '../../contracts/keys.ts'

/** Records which code resolves a run: once, and again if other code continues it. */
export async function recordCode(
  store: ArtifactStore,
  { run, code }: { run: string; code: Omit<CodeRecord, 'schema'> },
): Promise<void> {
  const mine: CodeRecord = { schema: 'longhaul.code/1', ...code }
  const known = await readCodes(store, run)
  const last = known.at(-1)
  if (last !== undefined && isSame(last, mine)) return
  for (let number = known.length + 1; ; number++) {
    const { record, won } = await store.claimRecord<CodeRecord>(runKeys.code(run, number), mine)
    if (won || isSame(record, mine)) return
  }
}

/** In the order in which they resolved the run. */
export async function readCodes(store: ArtifactStore, run: string): Promise<CodeRecord[]> {
  const records = await Promise.all(
    (await store.list(runKeys.codes(run))).map((key) => store.readRecord<CodeRecord>(key)),
  )
  return records.filter((record) => record !== null)
}

function isSame(a: CodeRecord, b: CodeRecord): boolean {
  return a.version === b.version && a.revision === b.revision && a.filesSha256 === b.filesSha256 && a.node === b.node
}
