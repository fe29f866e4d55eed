/** Entry of the supervisor process: `node supervise.ts <config file>`. Detached from the terminal by `up`; ends on SIGTERM. */
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

/** A dead engine is found by its process, which costs one file read: often is cheap. */
const POLL_MS = 1_000
/** After a recovery that failed, so that a machine that cannot start one is not kept busy. */
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
// The terminal that ran `up` may close: the stack stays.
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

/** Starts the private engine again when its process is gone; episodes then replay into new containers. An engine that lives
 *  but is slow is left alone. Several stacks may watch one engine: its lock lets the first one act. */
async function watchEngine({ files, user, log, signal }: EngineWatchInput): Promise<void> {
  while (!signal.aborted) {
    await sleep(POLL_MS, undefined, { signal }).catch(() => undefined)
    const engine = await readJson<ProcessIdentity>(files.record)
    // No record: another supervisor is at work, or the stack is going down.
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
