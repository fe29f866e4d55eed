import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** SHA-256 over names and bytes of all files of a folder except tests, in the order of their names. */
export async function hashOf(folder: string): Promise<string> {
  const hash = createHash('sha256')
  const names = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = names
    .filter((entry) => entry.isFile() && !entry.name.endsWith('.test.ts'))
    .map((entry) => join(entry.parentPath, entry.name))
  for (const file of files.toSorted()) {
    hash.update(`${file.slice(folder.length)}\0`)
    hash.update(await readFile(file))
  }
  return hash.digest('hex')
}
