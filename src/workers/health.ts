import { createServer, type Server } from 'node:http'
import { isIP } from 'node:net'
import { LonghaulError } from '../contracts/errors.ts'

/** What an orchestrator asks a worker process. */
export interface Health {
  /** The Temporal workers of the process, once they are made. */
  watch(workers: readonly { getState(): string }[]): void
  close(): Promise<void>
}

/**
 * LONGHAUL_HEALTH_ADDRESS (`0.0.0.0:9470`): `/live` is answered as long as the event loop turns, `/ready` with 200 while every Temporal
 * worker of the process polls, else with 503 and their states. A Temporal server that is away changes neither: a restart would not bring
 * it back, and no other replica reaches it.
 * @returns null where the variable says nothing
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
  // A client that sends its request too slowly is cut off.
  server.requestTimeout = 10_000
  await listen(server, { host, port, address })
  // The port alone must not keep the process alive.
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
