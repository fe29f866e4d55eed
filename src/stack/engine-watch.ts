import { setTimeout as sleep } from 'node:timers/promises'

import { toLonghaulError } from '../contracts/errors.ts'
import { readJson } from '../platform/files.ts'
import { isAlive, type ProcessIdentity } from '../platform/processes.ts'
import { acquirePrivateEngine, type EngineFiles, type EngineUser } from './setup/private-engine.ts'

/** A dead engine is found by its process, which costs one file read: often is cheap. */
const POLL_MS = 1_000
/** After a recovery that failed, so that a machine that cannot start one is not kept busy. */
const PAUSE_MS = 15_000

export interface EngineWatchInput {
  files: EngineFiles
  user: EngineUser
  log: (line: string) => void
  signal: AbortSignal
}

/** Starts the private engine again when its process is gone; episodes then replay into new containers. An engine that lives
 *  but is slow is left alone. Several stacks may watch one engine: its lock lets the first one act. */
export async function watchEngine({ files, user, log, signal }: EngineWatchInput): Promise<void> {
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
