/** Relays this machine's loopback services to pods of a test cluster: one relay for each address, for pods only. */
import { startStallingProxy } from '../stalling-proxy.ts'
import type { Cluster } from './cluster.ts'

export interface PodRelay {
  /** `HOST:PORT` for pods. */
  address: string
  close(): Promise<void>
}

/** @param target `127.0.0.1:PORT` */
export async function startPodRelay({ podSubnet }: Cluster, target: string): Promise<PodRelay> {
  const port = Number(target.split(':').at(-1))
  const relay = await startStallingProxy({
    target: { host: '127.0.0.1', port },
    // The gateway's address appears and disappears with the pods, so the relay listens on all addresses and serves only pods.
    host: '0.0.0.0',
    accepts: (address) => address.startsWith(podSubnet),
  })
  return { address: `${podSubnet}1:${relay.port}`, close: relay.close }
}
