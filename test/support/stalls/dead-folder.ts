/** A folder as a network file system shows it whose server has died: each call waits. It is a FUSE mount whose requests stay unanswered. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, mkdir } from 'node:fs/promises'
import { HANG_MS } from '../hang.ts'
import { withDeadline } from '../with-deadline.ts'

export const withoutDeadFolders: string | false =
  process.getuid?.() !== 0
    ? 'needs root: mounts a file system'
    : await access('/dev/fuse').then(
        () => false as const,
        () => 'this kernel has no FUSE',
      )

/** The shell holds the only descriptor of the mount. Its input ends with this process, also if that is killed. */
const HOLD = 'exec 3<>/dev/fuse; mount -i -t fuse -o "fd=3,$2" none "$1" && echo mounted && cat; umount -l "$1"'

/** @returns makes the folder fail at once, also for those that wait, and removes the mount */
export async function mountDeadFolder(path: string): Promise<() => Promise<void>> {
  await mkdir(path, { recursive: true })
  const options = 'rootmode=40000,user_id=0,group_id=0'
  const holder = spawn('sh', ['-c', HOLD, 'sh', path, options], { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(holder, 'exit')
  const mounted = once(holder.stdout, 'data').then(([said]) => String(said))
  const said = await withDeadline(Promise.race([mounted, ended.then(() => 'an end')]), HANG_MS, `a mount at ${path}`)
  if (said !== 'mounted\n') throw new Error(`Expected a mount at ${path}, got ${said}`)
  return async () => {
    holder.stdin.end()
    await withDeadline(ended, HANG_MS, `the end of the mount at ${path}`)
  }
}
