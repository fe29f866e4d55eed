import { ignoreGone } from '../engine/engine-errors.ts'
import type { Engine } from '../engine/engine.ts'

export interface RemoveContainerInput {
  engine: Engine
  name: string
}

/** With its volumes, running or not. One that is gone, or that somebody else is removing, counts as removed. */
export async function removeContainer({ engine, name }: RemoveContainerInput): Promise<void> {
  await engine.docker.getContainer(name).remove({ force: true, v: true }).catch(ignoreGone)
}
