/** Entry point of the supervisor process: `node supervise.ts <config file>`. `up` detaches it from the terminal; SIGTERM ends it. */
import { readFile } from 'node:fs/promises'
import {
  engineUserKey,
  engineFiles,
  acquirePrivateEngine,
  type EngineFiles,
  type EngineUser,
} from './setup/private-engine.ts'
import { identify, isAlive, type ProcessIdentity } from '../platform/processes.ts'
import type { StackConfig } from './stack-record.ts'
import { Supervisor } from './supervisor.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { toLonghaulError } from '../contracts/errors.ts'
import { readJson } from '../platform/files.ts'

/** A check of the engine's process costs one file read, so frequent checks are cheap. */
const POLL_MS = 1_000
/** Pause after a failed recovery, so that a machine that cannot start an engine is not kept busy. */
const PAUSE_MS = 15_000

const configFile = process.argv[2]
if (configFile === undefined) throw new Error('Expected the path of a StackConfig file')
const config = JSON.parse(await readFile(configFile, 'utf8')) as StackConfig
const supervisor = new Supervisor(config)
const watching = new AbortController()

const stop = (): void => {
  watching.abort()
  void supervisor.stop().then(() => process.exit(0))
}
process.on('SIGTERM', stop)
process.on('SIGINT', stop)
// The stack outlives the terminal that ran `up`.
process.on('SIGHUP', () => undefined)

if (config.ownsEngine) {
  void watchEngine({
    files: engineFiles({ cacheDir: config.facts.cacheDir, runDir: config.runDir }),
    user: { key: engineUserKey(config.facts), owner: identify(process.pid) },
    log: (line) => console.error(`${new Date().toISOString()} ${line}`),
    signal: watching.signal,
  })
}
await supervisor.start()
// Keeps the process alive while every service waits for its restart.
setInterval(() => undefined, 60_000)

interface EngineWatchInput {
  files: EngineFiles
  user: EngineUser
  log: (line: string) => void
  signal: AbortSignal
}

/** Restarts the private engine when its process is gone; episodes then replay in new containers. Leaves an engine alone that is alive but
 *  slow. Several stacks may watch one engine: a lock lets the first of them act. */
async function watchEngine({ files, user, log, signal }: EngineWatchInput): Promise<void> {
  while (!signal.aborted) {
    await sleep(POLL_MS, undefined, { signal }).catch(() => undefined)
    const engine = await readJson<ProcessIdentity>(files.record)
    // Without a record, another supervisor is restarting the engine or the stack is going down.
    if (signal.aborted || engine === null || isAlive(engine)) continue
    try {
      log(`the private engine (pid ${engine.pid}) is gone`)
      await acquirePrivateEngine({ files, user, log, signal })
      log('the private engine runs again')
    } catch (error) {
      if (signal.aborted) return
      log(toLonghaulError(error).message)
      await sleep(PAUSE_MS, undefined, { signal }).catch(() => undefined)
    }
  }
}
