import { readdir, readlink, stat, statfs } from 'node:fs/promises'
import type { ContainerInspectInfo } from 'dockerode'
import { LonghaulError } from '../../../contracts/errors.ts'
import { runCommand } from '../../../platform/run-command.ts'
import { isLargePart } from '../container/container-state.ts'
import { mayRead, writtenFolderOf } from '../container/written-folder.ts'
import type { Engine } from '../engine/engine.ts'

/**
 * Measures from the host what containers have written, for engines that cannot limit it (`mayLimitDisk`), and kills a container that
 * exceeds its limit. It reads the upper directories of overlays, so it must run on the engine's machine with permission to read them, which
 * in practice is root.
 */
export interface DiskWatch {
  /** Starts to watch a container, with the limits it was created with. A second call changes nothing. */
  add(name: string, facts: ContainerInspectInfo): Promise<void>
  knows(name: string): boolean
  remove(name: string): void
  /** Looks once more. Returns whether the host's disk has been full while this container was watched, and others have filled it. False
   *  if it is not watched. */
  wasCrowdedOut(name: string): Promise<boolean>
  /** Counts what a container has written, unlinked files included; null if this host cannot read it. */
  measure(name: string): Promise<Amount | null>
  /** @throws LonghaulError `Sandbox.DiskLimit` if the container was killed for exceeding its disk limit */
  requireWithin(name: string): void
  dispose(): void
}

export interface DiskWatchOptions {
  engine: Engine
  log(message: string, facts: Record<string, string | number>): void
  /** How often free space is read. One call covers all containers. @default 2000 */
  everyMs?: number
  /** @default COUNT_TIMEOUT_MS */
  countTimeoutMs?: number
}

/** ext4 by default reserves one inode for every 16 KiB. */
const FILES_PER_GIB = 65_536
const GIB = 1024 ** 3
/** Upper bound on the time between two counts. Free space alone misses a container that writes while other containers remove as much. */
const COUNT_AT_LEAST_EVERY_MS = 30_000
/** A count that takes longer is aborted, because its result would be outdated. */
const COUNT_TIMEOUT_MS = 30_000
/** The pause after a count, as a multiple of the count's duration, so that a host with a slow disk does not count all the time. */
const REST = 5

/** A disk with less room counts as full: a container's own files and a turn's records no longer fit, and tests fail for want of it. */
export const FULL: Amount = { bytes: 64 * 1024 ** 2, files: 1024 }

interface Amount {
  bytes: number
  files: number
}

interface Usage {
  held: Amount
  free: Amount
}

interface Watched {
  name: string
  directory: string
  limit: Amount
  /** The engine keeps it to its limit, or it has none: it is only asked whether the disk is full. */
  isEnforced: boolean
  /** From the last count. */
  written: Amount
  /** What the file system held at the last count. */
  held: Amount
  countedAtMs: number
  /** The most that it had written whenever the disk was found full; null if it never was. It may delete all of it afterwards. */
  whenFull: Amount | null
}

export function createDiskWatch(options: DiskWatchOptions): DiskWatch {
  const { engine, log, everyMs = 2000, countTimeoutMs = COUNT_TIMEOUT_MS } = options
  const watched = new Map<string, Watched>()
  const known = new Set<string>()
  const exceeded = new Map<string, { written: Amount; limit: Amount }>()
  let timer: NodeJS.Timeout | undefined
  let isDisposed = false

  const schedule = (afterMs: number): void => {
    if (isDisposed || timer !== undefined || watched.size === 0) return
    timer = setTimeout(() => void look(), afterMs)
    timer.unref()
  }

  const look = async (): Promise<void> => {
    const begun = performance.now()
    for (const one of [...watched.values()].toSorted((a, b) => a.countedAtMs - b.countedAtMs)) {
      if (isDisposed || !watched.has(one.name)) continue
      try {
        await lookAt(one)
      } catch (error) {
        log('disk watch: not counted', {
          sandbox: one.name,
          why: error instanceof Error ? error.message : String(error),
        })
      }
    }
    timer = undefined
    schedule(Math.max(everyMs, REST * (performance.now() - begun)))
  }

  const lookAt = async (one: Watched): Promise<void> => {
    const now = await usageOf(one.directory)
    if (now === null) {
      watched.delete(one.name)
      return
    }
    const isFull = now.free.bytes < FULL.bytes || now.free.files < FULL.files
    if (!isFull && (one.isEnforced || !mayHavePassed(one, now.held))) return
    const written = await count(one)
    if (!isFull || written === null) return
    const before = one.whenFull ?? written
    one.whenFull = {
      bytes: Math.max(before.bytes, written.bytes),
      files: Math.max(before.files, written.files),
    }
  }

  /** Assumes the worst: this container alone wrote everything that the file system has gained since the last count. */
  const mayHavePassed = (one: Watched, held: Amount): boolean => {
    const gained = { bytes: held.bytes - one.held.bytes, files: held.files - one.held.files }
    if (gained.bytes === 0 && gained.files === 0) return false
    return (
      one.written.bytes + Math.max(0, gained.bytes) > one.limit.bytes ||
      one.written.files + Math.max(0, gained.files) > one.limit.files ||
      Date.now() - one.countedAtMs > COUNT_AT_LEAST_EVERY_MS
    )
  }

  /** Returns null if the container is gone. */
  const count = async (one: Watched): Promise<Amount | null> => {
    const usage = await usageOf(one.directory)
    const written = await countWritten(one.directory, await firstProcessOf(one.name), countTimeoutMs)
    if (usage === null || written === null) {
      if ((await usageOf(one.directory)) !== null) throw new Error('the count failed')
      watched.delete(one.name)
      return null
    }
    Object.assign(one, { held: usage.held, written, countedAtMs: Date.now() })
    if (one.isEnforced || (written.bytes <= one.limit.bytes && written.files <= one.limit.files)) return written
    watched.delete(one.name)
    // Recorded before the kill, so that a request that waits for this sandbox fails with the reason.
    exceeded.set(one.name, { written, limit: one.limit })
    log('disk watch: killed a container that exceeded its limit', { sandbox: one.name, ...written })
    await engine.docker.getContainer(one.name).kill({ signal: 'SIGKILL' })
    return written
  }

  const firstProcessOf = async (name: string): Promise<number | null> => {
    const { State: state } = await engine.docker.getContainer(name).inspect()
    return state.Running ? state.Pid : null
  }

  return {
    async add(name, facts) {
      if (known.has(name) || isDisposed) return
      const { HostConfig: host } = facts
      const directory = await writtenFolderOf(engine, facts)
      // Its first process has the mounts that name the folder, once it runs.
      if (directory === undefined && !facts.State.Running) return
      if (known.has(name)) return
      known.add(name)
      if (directory === undefined || !(await mayRead(directory))) return
      const bytes = host.Ulimits?.find(({ Name }) => Name === 'fsize')?.Hard ?? Number.POSITIVE_INFINITY
      const isCounted = Object.keys(host.StorageOpt ?? {}).length > 0
      const usage = await usageOf(directory)
      if (usage === null) return
      const limit = { bytes, files: Math.ceil((bytes / GIB) * FILES_PER_GIB) }
      const nothing = { bytes: 0, files: 0 }
      // A new container has written nothing yet. One that this process adopts is counted at the next look.
      const countedAtMs = Math.min(Date.now(), Date.parse(facts.Created) || 0)
      const { held } = usage
      const isEnforced = isCounted || bytes === Number.POSITIVE_INFINITY
      watched.set(name, { name, directory, limit, isEnforced, written: nothing, held, countedAtMs, whenFull: null })
      schedule(everyMs)
    },
    knows: (name) => known.has(name),
    async wasCrowdedOut(name) {
      const one = watched.get(name)
      if (one === undefined) return false
      await lookAt(one)
      return one.whenFull !== null && !isLargePart(one.whenFull, one.limit)
    },
    async measure(name) {
      const directory = await writtenFolderOf(engine, await engine.docker.getContainer(name).inspect())
      if (directory === undefined || !(await mayRead(directory))) return null
      return countWritten(directory, await firstProcessOf(name), countTimeoutMs)
    },
    remove(name) {
      known.delete(name)
      watched.delete(name)
      exceeded.delete(name)
    },
    requireWithin(name) {
      const found = exceeded.get(name)
      if (found === undefined) return
      const { written, limit } = found
      throw new LonghaulError({
        code: 'Sandbox.DiskLimit',
        message: `Expected a sandbox to write at most ${limit.bytes} bytes and ${limit.files} files, found ${written.bytes} bytes and ${written.files} files: it was killed`,
        details: { name },
      })
    },
    dispose() {
      isDisposed = true
      clearTimeout(timer)
    },
  }
}

const SNAPSHOTS = 'io.containerd.snapshotter.v1.overlayfs'
/** By the engine's storage driver: below its data directory, or where a containerd that the system started keeps them. */
const WRITTEN: Readonly<Record<string, (dataRoot: string) => string[]>> = {
  overlay2: (dataRoot) => [`${dataRoot}/overlay2`],
  overlayfs: (dataRoot) => [`${dataRoot}/containerd/daemon/${SNAPSHOTS}`, `/var/lib/containerd/${SNAPSHOTS}`],
}

/** Returns whether this process can read what an engine's containers write. */
export async function mayCountBelow({ dataRoot, driver }: { dataRoot: string; driver: string }): Promise<boolean> {
  if (!(await mayRead(dataRoot))) return false
  const readable = await Promise.all((WRITTEN[driver]?.(dataRoot) ?? []).map(mayRead))
  return readable.includes(true)
}

/** Returns null if the directory is gone because its container was removed. */
async function usageOf(directory: string): Promise<Usage | null> {
  try {
    const { bsize, blocks, bfree, files, ffree } = await statfs(directory)
    return {
      held: { bytes: (blocks - bfree) * bsize, files: files - ffree },
      // Some file systems have no limit of files, and report zero of zero.
      free: { bytes: bfree * bsize, files: files === 0 ? Number.POSITIVE_INFINITY : ffree },
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

/**
 * Prints bytes and files below a folder, then bytes and files of unlinked files. `du` counts hard links once and stays on the file
 * system; if files disappear meanwhile, it still prints the sum. The second count sees each unlinked file once, however many
 * descriptors refer to it: `-L` follows a descriptor to its file. Files in memory are skipped, because their device differs from that
 * of the container's root. All runs at the same priority as the sandboxes. At a lower priority, a busy host would starve the count
 * and the limit would not hold.
 */
const COUNT = `folder=$1 device=$2; shift 2
sum() { du -s -x "$1" -- "$folder" 2>/dev/null | cut -f1; }
echo "$(sum --block-size=1) $(sum --inodes)"
[ $# -eq 0 ] || find -L "$@" -mindepth 1 -maxdepth 1 -type f -links 0 -printf '%D %i %b\\n' 2>/dev/null |
  awk -v device="$device" '$1 == device && !seen[$2]++ { blocks += $3; files += 1 } END { printf "%.0f %d\\n", blocks * 512, files }'`

/**
 * Counts what a container has written: its folder, and unlinked files on its disk that its processes hold open or mapped. Such a file
 * occupies space until its last descriptor is closed, and a count of directories misses it. Files in flight in the queue of a socket
 * are still missed. Returns null if the folder is gone. Starts one program for all, because each start blocks a large process.
 * @param first the PID of the container's first process on this host; null if the container does not run
 */
async function countWritten(directory: string, first: number | null, timeoutMs: number): Promise<Amount | null> {
  const { device, folders } = first === null ? NO_DESCRIPTORS : await descriptorsOf(first)
  const { exitCode, stdout, tail, timedOut } = await runCommand({
    command: 'sh',
    args: ['-c', COUNT, 'sh', directory, device, ...folders],
    env: { PATH: process.env['PATH'], LC_ALL: 'C' },
    timeoutMs,
  })
  const [named, unnamed = { bytes: 0, files: 0 }] = stdout.split('\n').map(parseAmount)
  // An agent can make the second count as slow as it likes, with millions of mappings. Then the first one stands alone.
  if (named === undefined && (timedOut || exitCode === null))
    throw new Error(timedOut ? 'the count took too long' : tail)
  if (named === undefined) return null
  return { bytes: named.bytes + unnamed.bytes, files: named.files + unnamed.files }
}

function parseAmount(line: string): Amount | undefined {
  const [, bytes, files] = /^(\d+) (\d+)$/.exec(line) ?? []
  return bytes === undefined ? undefined : { bytes: Number(bytes), files: Number(files) }
}

const NO_DESCRIPTORS = { device: '', folders: [] as string[] }

/** Lists where the kernel shows the open and mapped files of a container. If the engine uses another PID namespace, lists nothing. */
async function descriptorsOf(first: number): Promise<typeof NO_DESCRIPTORS> {
  const space = await readlink(`/proc/${first}/ns/pid`).catch(() => null)
  const root = await stat(`/proc/${first}/root/`).catch(() => null)
  if (space === null || root === null || space === (await readlink('/proc/self/ns/pid'))) return NO_DESCRIPTORS
  const folders: string[] = []
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid) || (await readlink(`/proc/${pid}/ns/pid`).catch(() => null)) !== space) continue
    // Threads can have file descriptors of their own.
    const threads = await readdir(`/proc/${pid}/task`).catch(() => [])
    folders.push(`/proc/${pid}/map_files`, ...threads.map((thread) => `/proc/${pid}/task/${thread}/fd`))
  }
  return { device: String(root.dev), folders }
}
