import { createServer, type Server } from 'node:http'
import { isIP } from 'node:net'
import { LonghaulError } from '../contracts/errors.ts'

/** Answers an orchestrator's health checks of a worker process. */
export interface Health {
  /** Registers the Temporal workers of the process once they exist. */
  watch(workers: readonly { getState(): string }[]): void
  close(): Promise<void>
}

/**
 * LONGHAUL_HEALTH_ADDRESS (`0.0.0.0:9470`): `/live` is answered while the event loop runs. `/ready` is answered with 200 while every
 * Temporal worker of the process polls, otherwise with 503 and their states. An unavailable Temporal server changes neither, because a
 * restart would not help and no other replica would reach the server.
 * @returns null if the variable is not set
 * @throws LonghaulError `Config.Invalid`
 */
export async function openHealth(env: NodeJS.ProcessEnv = process.env): Promise<Health | null> {
  const address = env['LONGHAUL_HEALTH_ADDRESS'] ?? ''
  if (address === '') return null
  const { host, port } = parse(address)
  let workers: readonly { getState(): string }[] = []
  const server = createServer((request, response) => {
    const states = workers.map((worker) => worker.getState())
    const isReady = states.length > 0 && states.every((state) => state === 'RUNNING')
    const status = { '/live': 200, '/ready': isReady ? 200 : 503 }[request.url ?? ''] ?? 404
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(`${JSON.stringify({ workers: states })}\n`)
  })
  // Disconnects a client that sends its request too slowly.
  server.requestTimeout = 10_000
  await listen(server, { host, port, address })
  // The listening port alone must not keep the process alive.
  server.unref()
  return {
    watch: (made) => {
      workers = made
    },
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

function parse(address: string): { host: string; port: number } {
  const [, host = '', digits = ''] = /^(?:\[(?=.*:))?([\da-f.:]+?)\]?:(\d{1,5})$/i.exec(address) ?? []
  const port = Number(digits)
  if (isIP(host) !== 0 && digits !== '' && port <= 65_535) return { host, port }
  throw invalid(`Expected LONGHAUL_HEALTH_ADDRESS to be IP:PORT, got ${JSON.stringify(address)}`)
}

function listen(
  server: Server,
  { host, port, address }: { host: string; port: number; address: string },
): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (cause) =>
      reject(invalid(`LONGHAUL_HEALTH_ADDRESS=${address} cannot be used: ${cause.message}`, cause)),
    )
    server.listen({ host, port }, resolve)
  })
}

function invalid(message: string, cause?: unknown): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message, cause })
}
