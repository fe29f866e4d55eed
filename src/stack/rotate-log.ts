import { mkdir, rename, stat } from 'node:fs/promises'
import { dirname } from 'node:path'

const MAX_BYTES = 20_000_000

/** Keeps one older file beside a log that grew too large; called before a process opens it. */
export async function rotateLog(path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  const size = (await stat(path).catch(() => null))?.size ?? 0
  if (size > MAX_BYTES) await rename(path, `${path}.1`)
}
