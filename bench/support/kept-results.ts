import { readFileSync } from 'node:fs'
import { commit } from './versions.ts'

/**
 * What an earlier run of the same bench wrote, for `--continue`.
 * @throws where the file is of another commit: its figures say nothing about this one
 */
export function readKept<T extends object>(file: string): T {
  const found = JSON.parse(readFileSync(file, 'utf8')) as T & { commit?: string }
  if (found.commit === commit()) return found
  throw new Error(`${file} was played at commit ${found.commit ?? 'unknown'}, this is ${commit()}: play it again`)
}
