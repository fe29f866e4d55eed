import { readFile } from 'node:fs/promises'
import { totalmem } from 'node:os'
import { type BaseImageIdentity, readBaseImageRecipe } from '../../adapters/docker/images/base-image-rootfs.ts'
import { mayLimitDisk } from '../../adapters/docker/container/container-spec.ts'
import { FULL, mayCountBelow } from '../../adapters/docker/sandbox/disk-watch.ts'
import { enginePlace, connectEngine, type Engine } from '../../adapters/docker/engine/engine.ts'
import { imageExists } from '../../adapters/docker/images/images.ts'
import { toLonghaulError } from '../../contracts/errors.ts'
import type { StackPaths } from '../paths.ts'
import { findEngine } from '../setup/engine.ts'
import { engineFiles, engineRuns } from '../setup/private-engine.ts'
import { canBootstrap } from '../../adapters/docker/images/base-image-rootfs.ts'
import { findProgram, mayInstallPackages } from '../setup/system-packages.ts'
import {
  type Asked,
  type CheckDefinition,
  fail,
  type Finding,
  fixCommand,
  type MendContext,
  ok,
  warn,
  GIB,
} from './finding.ts'
import { StepRunner } from '../steps.ts'
import { engineFreeBytes } from '../../adapters/docker/images/evict-images.ts'
import { listOrphanedResources } from '../../adapters/docker/reaper/list-orphaned.ts'
import { decideReap } from '../../domain/orphaned-resources.ts'

/** Roles that open sandboxes. */
const SANDBOX = ['sandbox'] as const

const CHECKS: readonly CheckDefinition[] = [
  { group: 'docker', name: 'engine', why: 'each episode runs in containers', roles: SANDBOX, run: checkEngine },
  {
    group: 'docker',
    name: 'storage',
    why: 'without an overlay each container copies its whole image',
    roles: SANDBOX,
    run: (paths, asked) => withEngine(paths, asked, checkStorage),
  },
  {
    group: 'docker',
    name: 'limits',
    why: 'without enforced limits one sandbox can starve all others',
    roles: SANDBOX,
    run: (paths, asked) => withEngine(paths, asked, checkLimits),
  },
  {
    group: 'docker',
    name: 'sandbox image',
    why: 'the tasks of the demo are made from it',
    roles: SANDBOX,
    run: checkImage,
  },
  {
    group: 'docker',
    name: 'leftovers',
    why: 'orphaned containers and volumes take memory and disk from the next run',
    roles: SANDBOX,
    run: (paths, asked) => withEngine(paths, asked, (engine) => findOrphaned(engine, asked)),
  },
  {
    group: 'docker',
    name: 'image room',
    why: 'task images are gigabytes each',
    roles: SANDBOX,
    run: (paths, asked) =>
      withEngine(paths, asked, (engine) => findImageRoom(engine, Number(process.env['LONGHAUL_MIN_FREE_GIB'] ?? '10'))),
  },
  {
    group: 'docker',
    name: 'epoll watches',
    why: 'a user shares them with all its sandboxes: one agent could stop the engine and its neighbours',
    roles: SANDBOX,
    run: (paths, asked) => withEngine(paths, asked, checkEpollWatches),
  },
  {
    group: 'docker',
    name: 'debootstrap',
    why: 'makes the sandbox image where it is missing',
    roles: SANDBOX,
    run: async () => {
      if (canBootstrap()) return ok(findProgram('debootstrap') ?? '')
      return (await mayInstallPackages())
        ? ok('not installed; longhaul up installs it')
        : ok('not usable; the image is made in a container of Debian’s own image, which a registry or the engine has')
    },
  },
]

/** A worker whose graders are pods too has no engine. */
export const DOCKER_CHECKS: readonly CheckDefinition[] = CHECKS.map((check) => ({
  ...check,
  isNeeded: () => process.env['LONGHAUL_GRADERS'] !== 'pods',
}))

/** With a role, the engine that its worker connects to; else the engine that `up` would use, a private one only if it is running. */
async function reachableEngine(paths: StackPaths, asked: Asked | undefined): Promise<Engine | null> {
  if (asked !== undefined && asked.role !== null) return connectEngine()
  const host = await findEngine()
  if (host !== null) return connectEngine({ host })
  const files = engineFiles(paths)
  return (await engineRuns(files)) ? connectEngine({ host: `unix://${files.socket}` }) : null
}

async function withEngine(
  paths: StackPaths,
  asked: Asked | undefined,
  look: (engine: Engine) => Promise<Finding>,
): Promise<Finding> {
  const engine = await reachableEngine(paths, asked).catch(() => null)
  return engine === null ? warn('unknown without an engine', howToStart(asked)) : look(engine)
}

/** Workers start no engine. */
function howToStart(asked: Asked | undefined): string {
  if (asked === undefined || asked.role === null) return 'longhaul up'
  return 'systemctl start docker, or export DOCKER_HOST=unix:///PATH/docker.sock'
}

async function checkEngine(paths: StackPaths, asked?: Asked): Promise<Finding> {
  try {
    const engine = await reachableEngine(paths, asked)
    if (engine !== null)
      return ok(
        `${engine.host}, ${engine.version}, API ${engine.apiVersion}${engine.hasInit ? '' : ', no init helper'}`,
      )
  } catch (error) {
    const isWorker = asked !== undefined && asked.role !== null
    return fail(toLonghaulError(error).message, isWorker ? howToStart(asked) : 'start it, or unset DOCKER_HOST')
  }
  const canStart = process.getuid?.() === 0 && (findProgram('dockerd') !== null || (await mayInstallPackages()))
  return canStart
    ? warn('none is running', 'longhaul up (starts a private one, stopped by longhaul down)')
    : fail('none answers, and this user cannot start one', 'start Docker, or set DOCKER_HOST')
}

async function checkStorage(engine: Engine): Promise<Finding> {
  const { storageDriver: driver, backingFilesystem, cgroupVersion } = engine.facts
  const { rootDir } = await enginePlace(engine)
  const isWatched = await mayCountBelow({ dataRoot: rootDir, driver })
  const how = mayLimitDisk(engine)
    ? 'the engine limits what a container writes'
    : isWatched
      ? 'the sandbox worker counts what a container writes and ends it at its limit'
      : 'nothing limits what a container writes'
  const value = `${driver} over ${backingFilesystem ?? 'an unknown file system'}, cgroup v${cgroupVersion}, ${how}`
  if (driver === 'vfs') return warn(value, 'put LONGHAUL_CACHE on ext4 or xfs')
  if (mayLimitDisk(engine) || isWatched) return ok(value)
  return warn(value, 'run sandbox workers as root on the machine of the engine, or its data on xfs with project quotas')
}

async function checkLimits({ facts: { cgroupVersion, unenforced } }: Engine): Promise<Finding> {
  const how = `cgroup v${cgroupVersion}`
  const open = unenforced.filter((name) => name !== 'swap' && name !== 'cpuset')
  if (open.length === 0) return ok(`${how}, enforces the limits of sandboxes`)
  return fail(
    `${how}, does not enforce ${open.join(', ')}`,
    'boot with cgroup_enable=memory swapaccount=1, or delegate the controllers to the engine (systemctl edit docker: Delegate=yes)',
  )
}

async function checkImage(paths: StackPaths, asked?: Asked): Promise<Finding> {
  const { tag }: BaseImageIdentity = await readBaseImageRecipe()
  const engine = await reachableEngine(paths, asked).catch(() => null)
  if (engine === null) return warn(`${tag}: unknown without an engine`, howToStart(asked))
  if (await imageExists({ engine, image: tag })) return ok(tag)
  return warn(`${tag} is missing`, fixCommand(asked), {
    what: `make ${tag} in ${engine.host}`,
    run: (context) => makeImage(engine.host, context),
  })
}

/** Makes the image as the setup of `up` does, with the same limit of 30 minutes without progress. */
async function makeImage(dockerHost: string, { paths, log, signal }: MendContext): Promise<string> {
  const { ensureSandboxImage } = await import('../setup/set-up.ts')
  const runner = new StepRunner({ log, signal })
  const made = runner.step({
    name: 'sandbox image',
    silenceMs: 30 * 60_000,
    action: (context) => ensureSandboxImage({ dockerHost, cacheDir: paths.cacheDir, context }),
  })
  await runner.all()
  return `made ${await made} in ${dockerHost}`
}

const EPOLL_WATCHES = '/proc/sys/fs/epoll/max_user_watches'
/** The least that the kernel charges the taker's container for one (5.5 million took 1.2 GB of its memory). */
const WATCH_BYTES = 200

async function checkEpollWatches(engine: Engine): Promise<Finding> {
  if ((await engineFreeBytes(engine)) === null) return ok('on another machine: look there')
  const limit = await readFile(EPOLL_WATCHES, 'utf8').catch(() => null)
  return limit === null ? ok('this kernel does not limit them') : findEpollWatches(Number(limit), totalmem())
}

/**
 * If the watches of a user cost more than the machine's memory, every container meets its own memory limit before it has taken them all.
 * The kernel's default is 4 % of the memory.
 * @internal exported for its test
 */
export function findEpollWatches(limit: number, memoryBytes: number): Finding {
  const value = `a user may have ${limit}`
  const needed = Math.ceil(memoryBytes / WATCH_BYTES)
  return limit >= needed ? ok(value) : warn(value, `sysctl fs.epoll.max_user_watches=${needed} (docs/security.md)`)
}

const TIMEOUT_MS = 10_000

/** Finds overdue resources of every owner. A running sandbox worker of their stack removes such resources within half a minute. */
async function findOrphaned(engine: Engine, asked?: Asked): Promise<Finding> {
  const all = await listOrphanedResources({ engine, now: Date.now(), signal: AbortSignal.timeout(TIMEOUT_MS) })
  const overdue = all.filter((thing) => decideReap(thing, thing).kind === 'remove')
  const running = all.filter(({ state }) => state === 'running').length
  const value = `${running} sandboxes run, ${overdue.length} containers, networks and volumes are overdue`
  if (overdue.length === 0) return ok(value)
  const reap = asked?.tools.reap
  const fix = 'longhaul reap --dry-run (for other stacks start their workers, or run longhaul down there)'
  if (reap === undefined) return warn(value, fix)
  return warn(value, fix, {
    what: 'remove overdue resources of this host and namespace',
    async run() {
      const { removed, failed } = await reap({ isDryRun: false })
      if (failed > 0) throw new Error(`the engine did not remove ${failed} of them: longhaul reap`)
      return removed === 0 ? null : `removed ${removed} containers, networks and volumes`
    },
  })
}

/** Compares the free disk space with the workers' watermark. */
async function findImageRoom(engine: Engine, minFreeGib: number): Promise<Finding> {
  const free = await engineFreeBytes(engine)
  if (free === null) return ok('on another machine; its workers watch it')
  const { rootDir } = await enginePlace(engine)
  if (free < FULL.bytes) {
    const fix = 'free disk space there (docker system df); unused task images are removed automatically'
    return warn(`Sandbox.OutOfDisk: ${rootDir} is full`, fix)
  }
  const value = `${(free / GIB).toFixed(0)} GiB free at ${rootDir}; below ${minFreeGib} GiB unused task images are removed`
  return free < minFreeGib * GIB ? warn(value, 'docker image prune, or a disk with more room') : ok(value)
}
