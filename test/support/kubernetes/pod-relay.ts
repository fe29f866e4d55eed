/** What pods of a test cluster reach of this machine's loopback interface: a relay for each address, for pods alone. */
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import type { Cluster } from './cluster.ts'

export interface PodRelay {
  /** `HOST:PORT` for pods. */
  address: string
  close(): Promise<void>
}

/** @param target `127.0.0.1:PORT` */
export async function startPodRelay({ podSubnet }: Cluster, target: string): Promise<PodRelay> {
  const port = Number(target.split(':').at(-1))
  const sockets = new Set<Socket>()
  const server = createServer((asked) => {
    // The gateway's address comes and goes with the pods, so the relay listens on all and answers theirs.
    if (!(asked.remoteAddress ?? '').startsWith(podSubnet)) return asked.destroy()
    const onward = connect({ host: '127.0.0.1', port })
    for (const [socket, other] of [
      [asked, onward],
      [onward, asked],
    ] as const) {
      sockets.add(socket)
      socket.on('error', () => socket.destroy())
      socket.on('close', () => {
        sockets.delete(socket)
        other.destroy()
      })
    }
    asked.pipe(onward)
    onward.pipe(asked)
    return
  })
  await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve))
  return {
    address: `${podSubnet}1:${(server.address() as AddressInfo).port}`,
    close() {
      for (const socket of sockets) socket.destroy()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}
