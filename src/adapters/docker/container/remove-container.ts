import { ignoreGone } from '../engine/engine-errors.ts'
import type { Engine } from '../engine/engine.ts'

export interface RemoveContainerInput {
  engine: Engine
  name: string
}

/** Removes a container, running or not, with its volumes. One that is gone or being removed counts as removed. */
export async function removeContainer({ engine, name }: RemoveContainerInput): Promise<void> {
  await engine.docker.getContainer(name).remove({ force: true, v: true }).catch(ignoreGone)
}
