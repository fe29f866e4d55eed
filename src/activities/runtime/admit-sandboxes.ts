import { type Admission, placeKey } from '../../adapters/docker/sandbox/admission.ts'
import type { SandboxHost } from '../../contracts/sandbox.types.ts'
import type { HostDoor } from './host-door.ts'
import { waitingFor } from './wait-board.ts'

/** A sandbox host that opens a sandbox when its request can be admitted, and reports the wait in heartbeats. */
export function admitSandboxes({
  host,
  admission,
  hostId,
  door,
}: {
  host: SandboxHost
  admission: Admission
  hostId: string
  /** When it closes, sandboxes that wait for a place leave. @default always open */
  door?: Pick<HostDoor, 'closing'>
}): SandboxHost {
  return {
    ...host,
    open(input, signal) {
      const { request, episode, placement } = input
      if (request === undefined) return host.open(input, signal)
      return admission.admit({
        key: placeKey(episode, placement),
        request,
        signal: door === undefined ? signal : AbortSignal.any([signal, door.closing()]),
        open: () => host.open(input, signal),
        whileWaiting: (wait, why) =>
          waitingFor({ doing: `waiting for ${why}`, on: { kind: 'host', name: hostId } }, wait),
      })
    },
    async close(sandbox) {
      await host.close(sandbox)
      admission.give(sandbox.name)
    },
  }
}
