import type { Held } from './admission.ts'
import type { Engine } from '../engine/engine.ts'
import { listSandboxes } from '../container/list-sandboxes.ts'

/** Sandboxes that hold a place on this machine, whichever worker of the same Temporal namespace opened them. */
export async function listHeld({ engine, namespaceId }: { engine: Engine; namespaceId: string }): Promise<Held[]> {
  const sandboxes = await listSandboxes({ engine })
  return sandboxes.flatMap(({ episode, fence, request, name, state, namespaceId: owners }) =>
    request === null || state === 'ended' || owners !== namespaceId
      ? []
      : [{ key: placeKey(episode, fence), request, name }],
  )
}

/** An episode has one place for each of its placements. */
export function placeKey(episode: string, placement: number): string {
  return `${episode}#${placement}`
}
