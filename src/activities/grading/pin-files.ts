import { type FetchedAsset, fetchAssets } from '../../adapters/datasets/fetch-asset.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { suiteKeys } from '../../contracts/keys.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { sha256Hex } from '../../platform/hash.ts'
import type { PinnedFile, PinnedFilesRecord } from '../../contracts/suites.types.ts'

/**
 * The files of a task's row, with the bytes that its other gradings had. A row gives an address, and its host may answer differently
 * after the gate. So the first grading of a row in a store, usually its gate, records the hashes; a row may also state them itself
 * (`longhaul tasks import --pin-files`), and then no store decides.
 * @throws LonghaulError `Grading.Failed` for a file that cannot be fetched or has other bytes: that says nothing about the patch
 */
export async function fetchPinnedFiles(
  store: ArtifactStore,
  { taskId, rowHash, harness }: Task,
  signal: AbortSignal,
): Promise<FetchedAsset[]> {
  const found = await fetchAssets(harness?.assets ?? [], signal)
  if (found.length === 0) return []
  const files = found.map(({ path, url, bytes }) => ({ path, url, sha256: sha256Hex(bytes), bytes: bytes.byteLength }))
  for (const [at, file] of files.entries()) requireSame({ taskId, file, expected: found[at]?.sha256, by: 'its row' })
  const { record } = await store.claimRecord<PinnedFilesRecord>(suiteKeys.pinnedFiles(taskId, rowHash), {
    schema: 'longhaul.pinned-files/1',
    taskId,
    rowHash,
    files,
  })
  for (const [at, file] of files.entries()) {
    requireSame({ taskId, file, expected: record.files[at]?.sha256, by: 'the first grading of its row' })
  }
  return found
}

function requireSame({
  taskId,
  file,
  expected,
  by,
}: {
  taskId: string
  file: PinnedFile
  expected: string | undefined
  by: string
}): void {
  const { path, url, sha256, bytes } = file
  if (expected === undefined || expected === sha256) return
  throw new LonghaulError({
    code: 'Grading.Failed',
    message: `Expected the file ${path} of task ${taskId} as ${by} pinned it, with SHA-256 ${expected}, got ${sha256}: its host gives other bytes now. To accept them, import the rows anew with longhaul tasks import SOURCE --pin-files --output FILE; their tasks are then gated again`,
    details: { path, url, expected, found: sha256, bytes },
  })
}
