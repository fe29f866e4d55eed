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

/** What a run of the same bench wrote at any commit. The caller says which figure is of which commit. */
export function readOfAnyCommit<T extends { commit: string }>(file: string): T {
  const found = JSON.parse(readFileSync(file, 'utf8')) as T & { commit?: string }
  if (typeof found.commit === 'string') return found
  throw new Error(`${file} does not say at which commit it was played: play it again`)
}
