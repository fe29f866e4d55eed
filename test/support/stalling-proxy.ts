/** A byte proxy that can stop moving bytes, as a frozen process or a dead network does: connections are still accepted. */
import { connect, createServer, type AddressInfo, type NetConnectOpts, type Socket } from 'node:net'

export interface StallingProxy {
  /** Of the loopback interface; 0 where it listens on a path. */
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
  /** Interface of a port that is not only for this machine. @default the loopback interface */
  host?: string
  /** Asked of each connection, by the address that it comes from. @default all are accepted */
  accepts?: (remoteAddress: string) => boolean
  /** Seen by each piece on its way to the target, after it was passed on. */
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
    // An end that comes as an error is an end like any other here.
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
    // After the listeners: adding one sets a socket flowing.
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
