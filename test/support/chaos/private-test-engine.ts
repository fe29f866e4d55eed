/** A private engine that may be disturbed, with its own data root, socket and processes. */
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { ensureBaseImage } from '../../../src/adapters/docker/images/base-image.ts'
import { connectEngine, type Engine } from '../../../src/adapters/docker/engine/engine.ts'
import {
  identify,
  listProcesses,
  type ProcessIdentity,
  signalProcess,
  stopProcess,
  waitUntilGone,
  withDescendants,
} from '../../../src/platform/processes.ts'
import {
  acquirePrivateEngine,
  clearEngineRemains,
  engineFiles,
  releasePrivateEngine,
} from '../../../src/stack/setup/private-engine.ts'

export interface TestEngine {
  host: string
  engine: Engine
  /** Stops it with SIGTERM, like a package update, and starts it again; its containers are stopped. @param downMs pause in between, 0
   *  by default */
  restart(input?: { downMs?: number }): Promise<void>
  freeze(ms: number): Promise<void>
  /** Sends SIGKILL to the engine and its containerd, like a crash of the machine. The next start cleans up. */
  crash(): Promise<void>
  start(): Promise<void>
  /** The engine's current process. */
  daemon(): Promise<ProcessIdentity>
  /** Removes the machine: engine, shims and containers end at once and do not return. */
  vanish(): Promise<void>
  close(): Promise<void>
}

export async function startTestEngine(input: {
  /** Short, because socket paths below it have a length limit. */
  folder: string
  /** Folder with the base image's archive. */
  imageCache: string
  log: (line: string) => void
  /** Further flags of the engine. */
  flags?: readonly string[]
}): Promise<TestEngine> {
  const { folder, imageCache, log, flags = [] } = input
  const files = engineFiles({ cacheDir: folder, runDir: folder })
  const user = { key: `chaos-${process.pid}`, owner: identify(process.pid) }
  const start = async (): Promise<void> => void (await acquirePrivateEngine({ files, user, log, flags }))
  await start()
  const host = `unix://${files.socket}`
  const engine = await connectEngine({ host })
  await ensureBaseImage({ engine, cacheDir: imageCache, log })
  const daemon = async (): Promise<ProcessIdentity> =>
    JSON.parse(await readFile(files.record, 'utf8')) as ProcessIdentity
  let isGone = false
  return {
    host,
    engine,
    async restart({ downMs = 0 } = {}) {
      await stopProcess({ identity: await daemon(), graceMs: 30_000 })
      await sleep(downMs)
      await start()
    },
    async crash() {
      const identity = await daemon()
      const all = listProcesses()
      const root = all.find(({ pid }) => pid === identity.pid)
      for (const one of root === undefined ? [] : withDescendants(root, all)) signalProcess(one, 'SIGKILL')
      await waitUntilGone({ identity, timeoutMs: 5_000 })
    },
    start,
    daemon,
    async freeze(ms) {
      const identity = await daemon()
      signalProcess(identity, 'SIGSTOP')
      await sleep(ms)
      signalProcess(identity, 'SIGCONT')
    },
    async vanish() {
      isGone = true
      signalProcess(await daemon(), 'SIGKILL')
      await clearEngineRemains({ files })
    },
    async close() {
      if (!isGone) await releasePrivateEngine({ files, key: user.key })
      await clearEngineRemains({ files })
    },
  }
}
