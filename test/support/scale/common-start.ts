/** Holds the first sample of every episode back until all of them wait for theirs, in whatever process. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const LOOK_EVERY_MS = 500
const BEGUN = 'begun'
const WAITING = 'waiting-'

/**
 * @param folder shared by all processes, and by those that replace them
 * @param name of this process
 * @param together number of episodes
 */
export function createCommonStart({ folder, name, together }: { folder: string; name: string; together: number }) {
  let own = 0
  let start: Promise<void> | null = null
  const begin = async (): Promise<void> => {
    while (!existsSync(join(folder, BEGUN))) {
      writeFileSync(join(folder, `${WAITING}${name}`), String(own))
      if (countWaiting(folder) >= together) writeFileSync(join(folder, BEGUN), '')
      else await sleep(LOOK_EVERY_MS)
    }
  }
  return (): Promise<void> => {
    own += 1
    start ??= begin()
    return start
  }
}

function countWaiting(folder: string): number {
  return readdirSync(folder)
    .filter((name) => name.startsWith(WAITING))
    .reduce((sum, name) => sum + Number(readFileSync(join(folder, name), 'utf8')), 0)
}
