import { rm } from 'node:fs/promises'
import { join } from 'node:path'

import { changeEnvironment } from '../../test/support/environment.ts'
import { type Engine, connectEngine } from '../../src/adapters/docker/engine/engine.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { startStack } from '../../test/support/start-stack.ts'
import { stopOnInterrupt } from './interruption.ts'

/**
 * The engine of DOCKER_HOST or of the machine; if none answers, one that the project starts in a stack of this name. `stop` ends the
 * started engine, removes the stack's directory, and removes its address from the environment, so that the next call starts another. An
 * interrupt stops it too.
 */
export async function findEngine(name: string): Promise<{ engine: Engine; stop: () => Promise<void> }> {
  try {
    return { engine: await connectEngine(), stop: async () => undefined }
  } catch (error) {
    if (process.env['DOCKER_HOST'] !== undefined) throw error
    const home = join(stackPaths().dataDir, '..', '..')
    const stack = await startStack({ name, home, signal: new AbortController().signal })
    const restore = changeEnvironment(stack.environment)
    const remove = async (): Promise<void> => {
      await stack.stop()
      await rm(stackPaths({ name, home }).dataDir, { recursive: true, force: true })
    }
    const ignoreInterrupts = stopOnInterrupt(remove)
    const stop = async (): Promise<void> => {
      await remove()
      ignoreInterrupts()
      restore()
    }
    return { engine: await connectEngine(), stop }
  }
}
