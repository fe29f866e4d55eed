/** A byte proxy that can stop forwarding, like a frozen process or a dead network: connections are still accepted. */
import { connect, createServer, type AddressInfo, type NetConnectOpts, type Socket } from 'node:net'

export interface StallingProxy {
  /** Port on the loopback interface; 0 if the proxy listens on a path. */
  port: number
  stall(): void
  resume(): void
  /** Ends all connections. @returns how many there were */
  cut(): number
  close(): Promise<void>
}

export interface StallingProxyOptions {
  target: NetConnectOpts
  /** Path of a Unix socket to listen on. @default a free port of the loopback interface */
  path?: string
  /** Interface that other machines can reach. @default the loopback interface */
  host?: string
  /** Called for each connection with its remote address. @default all are accepted */
  accepts?: (remoteAddress: string) => boolean
  /** Called with each chunk on its way to the target, after it was forwarded. */
  onAsked?: (bytes: Buffer) => void
}

export async function startStallingProxy({
  target,
  path,
  host = '127.0.0.1',
  accepts = () => true,
  onAsked,
}: StallingProxyOptions): Promise<StallingProxy> {
  const sockets = new Set<Socket>()
  let isStalled = false

  const track = (socket: Socket): void => {
    sockets.add(socket)
    // An end by error is like any other end here.
    socket.on('error', () => socket.destroy())
    socket.on('close', () => sockets.delete(socket))
    socket.setNoDelay(true)
    if (isStalled) socket.pause()
  }
  const move = (from: Socket, to: Socket, onBytes?: (bytes: Buffer) => void): void => {
    from.on('data', (bytes: Buffer) => {
      to.write(bytes)
      onBytes?.(bytes)
    })
    from.on('end', () => to.end())
    from.on('close', () => to.destroySoon())
  }
  const cut = (): number => {
    const connections = Math.ceil(sockets.size / 2)
    for (const socket of sockets) socket.destroy()
    return connections
  }
  const server = createServer({ allowHalfOpen: true }, (asked) => {
    if (!accepts(asked.remoteAddress ?? '')) {
      asked.destroy()
      return
    }
    const onward = connect({ ...target, allowHalfOpen: true } as NetConnectOpts)
    move(asked, onward, onAsked)
    move(onward, asked)
    // After the listeners, because adding one makes a socket flow.
    track(asked)
    track(onward)
  })
  await new Promise<void>((resolve) =>
    path === undefined ? server.listen(0, host, resolve) : server.listen(path, resolve),
  )
  return {
    port: path === undefined ? (server.address() as AddressInfo).port : 0,
    stall() {
      isStalled = true
      for (const socket of sockets) socket.pause()
    },
    resume() {
      isStalled = false
      for (const socket of sockets) socket.resume()
    },
    cut,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        cut()
      }),
  }
}
