import { identify, isAlive, signalProcess, waitUntilGone } from '../../src/platform/processes.ts'
import { freePort } from './loopback.ts'
import { type PolicyServerOptions, python, serveWords, untilServing } from './python.ts'
import { startWarmProcess, type WarmProcess } from './warm-process.ts'

export interface WarmServer {
  url: string
  /** Kills the server, like a crash. */
  stop(): Promise<void>
}

export interface WarmServers {
  /** Like `startPolicyServer`, but the server is a fork of a process that has imported everything. */
  start(options: PolicyServerOptions): Promise<WarmServer>
  /** Ends all of them. */
  close(): Promise<void>
}

const END_MS = 30_000

/** For tests that need several servers: see `trainer/tests/warm_server.py`. Starts with its first server. */
export function createWarmServers(): WarmServers {
  let started: WarmProcess | null = null
  return {
    async start(options) {
      started ??= startWarmProcess({ python: python ?? '', module: 'warm_server' })
      const port = await freePort()
      const answer = await started.ask({ arguments: serveWords(port, options) })
      const identity = identify((JSON.parse(answer) as { pid: number }).pid)
      const stop = async (): Promise<void> => {
        signalProcess(identity, 'SIGKILL')
        await waitUntilGone({ identity, timeoutMs: END_MS })
      }
      const url = `http://127.0.0.1:${port}`
      await untilServing(url, { hasEnded: () => !isAlive(identity), stop })
      return { url, stop }
    },
    close: async () => started?.close(),
  }
}
