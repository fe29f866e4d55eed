import { readFileSync } from 'node:fs'
import { commit } from './versions.ts'

/**
 * The result of an earlier run of the same bench, for `--continue`.
 * @throws if the file is of another commit, whose figures cannot be reused
 */
export function readKept<T extends object>(file: string): T {
  const found = JSON.parse(readFileSync(file, 'utf8')) as T & { commit?: string }
  if (found.commit === commit()) return found
  throw new Error(`${file} was played at commit ${found.commit ?? 'unknown'}, this is ${commit()}: play it again`)
}

/** The result of the same bench at any commit. The caller records the commit of each figure. */
export function readOfAnyCommit<T extends { commit: string }>(file: string): T {
  const found = JSON.parse(readFileSync(file, 'utf8')) as T & { commit?: string }
  if (typeof found.commit === 'string') return found
  throw new Error(`${file} does not say at which commit it was played: play it again`)
}
