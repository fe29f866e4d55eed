import { sha256Hex } from '../../platform/hash.ts'
import type { AcceptedRow } from './check-rows.ts'
import { fetchAssets } from './fetch-asset.ts'
import { normalizeRow } from './normalize-row.ts'

/** How far the fetching of files is that rows name by address. */
export interface PinProgress {
  rows: number
  /** Rows with such files. */
  of: number
}

interface PinRowsOptions {
  signal: AbortSignal
  onProgress?: ((progress: PinProgress) => void) | undefined
}

/**
 * Rows with the SHA-256 and the size of each file that they name by address. The hash of such a row changes with its files, so new
 * bytes make another task, which is gated again; all other rows stay as published.
 * @throws LonghaulError `Grading.Failed` for a file that cannot be fetched
 */
export async function pinRows(
  rows: readonly AcceptedRow[],
  { signal, onProgress }: PinRowsOptions,
): Promise<AcceptedRow[]> {
  const of = rows.filter(namesFiles).length
  let done = 0
  const pinned: AcceptedRow[] = []
  for (const row of rows) {
    if (!namesFiles(row)) {
      pinned.push(row)
      continue
    }
    onProgress?.({ rows: done, of })
    pinned.push(await pinRow(row, signal))
    done += 1
  }
  return pinned
}

function namesFiles({ task }: AcceptedRow): boolean {
  return task.harness?.assets?.some(({ url }) => url !== null) ?? false
}

async function pinRow({ task, row, meta }: AcceptedRow, signal: AbortSignal): Promise<AcceptedRow> {
  const files = await fetchAssets(task.harness?.assets ?? [], signal)
  const pins = new Map(
    files.map(({ path, url, bytes }) => [`${path} ${url}`, { sha256: sha256Hex(bytes), bytes: bytes.byteLength }]),
  )
  const pin = (entry: unknown): unknown => {
    const { path, url } = (entry ?? {}) as { path?: unknown; url?: unknown }
    const found = pins.get(`${String(path)} ${String(url)}`)
    return found === undefined ? entry : { ...(entry as object), ...found }
  }
  const column = row['image_assets']
  const declared = typeof column === 'string' ? (JSON.parse(column) as object) : (column as object)
  const changed = Object.fromEntries(
    Object.entries(declared).map(([kind, entries]) => [kind, Array.isArray(entries) ? entries.map(pin) : entries]),
  )
  const next = { ...row, image_assets: typeof column === 'string' ? JSON.stringify(changed) : changed }
  return { task: normalizeRow(next), row: next, meta }
}
