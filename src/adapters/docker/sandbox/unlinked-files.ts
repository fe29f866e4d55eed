import { execFile } from 'node:child_process'
import { readdir, readlink, stat } from 'node:fs/promises'
import { promisify } from 'node:util'

import type { Amount } from './disk-watch.ts'

const run = promisify(execFile)

/** A count that takes longer is given up, as the count of files that have a name. */
const TIMEOUT_MS = 30_000

/**
 * One line for each file without a name, however many descriptors lead to it. `-L` looks at the file behind a descriptor. A file in
 * memory is on another device than the container's root.
 */
const COUNT = `device=$1; shift
find -L "$@" -mindepth 1 -maxdepth 1 -type f -links 0 -printf '%D %i %b\\n' 2>/dev/null |
  awk -v device="$device" '$1 == device && !seen[$2]++ { blocks += $3; files += 1 } END { printf "%.0f %d\\n", blocks * 512, files }'`

/**
 * What the processes of a container hold open or mapped on its disk though no name leads to it: such a file takes room until the last of
 * them closes it, and a count of the container's folders misses it. Files that wait in the queue of a socket are missed here too.
 * @param first process of the container, as this host numbers it; where the engine numbers them otherwise nothing is counted
 */
export async function countUnlinked(first: number): Promise<Amount> {
  const nothing = { bytes: 0, files: 0 }
  const space = await readlink(`/proc/${first}/ns/pid`).catch(() => null)
  const root = await stat(`/proc/${first}/root/`).catch(() => null)
  if (space === null || root === null || space === (await readlink('/proc/self/ns/pid'))) return nothing
  const folders: string[] = []
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid) || (await readlink(`/proc/${pid}/ns/pid`).catch(() => null)) !== space) continue
    // Threads may have descriptors of their own.
    const threads = await readdir(`/proc/${pid}/task`).catch(() => [])
    folders.push(`/proc/${pid}/map_files`, ...threads.map((thread) => `/proc/${pid}/task/${thread}/fd`))
  }
  const settings = { timeout: TIMEOUT_MS, env: { PATH: process.env['PATH'], LC_ALL: 'C' } }
  const { stdout } = await run('sh', ['-c', COUNT, 'sh', String(root.dev), ...folders], settings)
  const [bytes = 0, files = 0] = stdout.trim().split(' ').map(Number)
  return { bytes, files }
}
