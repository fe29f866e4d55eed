/** A TCP proxy whose network can be dropped: established connections go silent, new ones are accepted and never answered. */
import { connect, createServer, type Socket } from 'node:net'
import type { AddressInfo } from 'node:net'

export interface TcpProxy {
  /** `host:port` */
  address: string
  /** Silence for this long; then all connections of before are reset, as a firewall that lost its state does.
   *  @returns how many connections were reset */
  drop(ms: number): Promise<number>
  close(): Promise<void>
}

export async function startTcpProxy({ port }: { port: number }): Promise<TcpProxy> {
  const pairs = new Set<{ near: Socket; far: Socket }>()
  let isDropped = false
  const server = createServer((near) => {
    const far = connect(port, '127.0.0.1')
    const pair = { near, far }
    pairs.add(pair)
    const end = (): void => {
      near.destroy()
      far.destroy()
      pairs.delete(pair)
    }
    for (const socket of [near, far]) {
      socket.setNoDelay(true)
      socket.on('error', end)
      socket.on('close', end)
    }
    near.pipe(far)
    far.pipe(near)
    if (isDropped) silence(pair)
  })
  const silence = ({ near, far }: { near: Socket; far: Socket }): void => {
    near.unpipe(far)
    far.unpipe(near)
    near.pause()
    far.pause()
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    async drop(ms) {
      isDropped = true
      for (const pair of pairs) silence(pair)
      await new Promise((resolve) => setTimeout(resolve, ms))
      isDropped = false
      for (const { near, far } of pairs) {
        near.destroy()
        far.destroy()
      }
      const cut = pairs.size
      pairs.clear()
      return cut
    },
    close: () =>
      new Promise((resolve) => {
        for (const { near, far } of pairs) {
          near.destroy()
          far.destroy()
        }
        server.close(() => resolve())
      }),
  }
}
