/** A TCP proxy whose network can be dropped: established connections go silent, new ones are accepted and never answered. */
import { setTimeout as sleep } from 'node:timers/promises'
import { startStallingProxy } from '../stalling-proxy.ts'

export interface TcpProxy {
  /** `host:port` */
  address: string
  /** Drops all traffic for this time, then resets all earlier connections, like a firewall that lost its state.
   *  @returns how many connections were reset */
  drop(ms: number): Promise<number>
  close(): Promise<void>
}

export async function startTcpProxy({ port }: { port: number }): Promise<TcpProxy> {
  const proxy = await startStallingProxy({ target: { host: '127.0.0.1', port } })
  return {
    address: `127.0.0.1:${proxy.port}`,
    async drop(ms) {
      proxy.stall()
      await sleep(ms)
      const connections = proxy.cut()
      proxy.resume()
      return connections
    },
    close: proxy.close,
  }
}
