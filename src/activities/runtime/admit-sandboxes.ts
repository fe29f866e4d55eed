import { type Admission, placeKey } from '../../adapters/docker/sandbox/admission.ts'
import type { SandboxHost } from '../../contracts/sandbox.types.ts'
import { waitingFor } from './wait-board.ts'

/** A sandbox host that opens a sandbox when there is a place for what it asks for, and says in heartbeats that it waits for one. */
export function admitSandboxes({
  host,
  admission,
  hostId,
}: {
  host: SandboxHost
  admission: Admission
  hostId: string
}): SandboxHost {
  return {
    ...host,
    open(input, signal) {
      const { request, episode, placement } = input
      if (request === undefined) return host.open(input, signal)
      return admission.admit({
        key: placeKey(episode, placement),
        request,
        signal,
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
