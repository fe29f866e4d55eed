import type { Engine } from './engine.ts'
import { type ListedSandbox, listSandboxes } from './list-sandboxes.ts'
import { removeContainer } from './remove-container.ts'

/** `yes`: somebody will close it. `no`: the owner is closed, superseded or was never heard of. `unknown`: the server
 *  that knows could not be asked. */
export type Ownership = 'yes' | 'no' | 'unknown'

export interface ReapLeftoversInput {
  engine: Engine
  isOwned: (sandbox: ListedSandbox) => Promise<Ownership>
}

/** Image builds take a second; a build container of this age was left by a killed process. */
const BUILD_LIFE_MS = 10 * 60_000

/** Removes what nobody will close. Containers without our project label are never looked at.
 *  @returns the names of the removed ones */
export async function reapLeftovers({ engine, isOwned }: ReapLeftoversInput): Promise<string[]> {
  const removed: string[] = []
  for (const sandbox of await listSandboxes({ engine })) {
    if (!(await isLeftover(sandbox, isOwned))) continue
    await removeContainer({ engine, name: sandbox.name })
    removed.push(sandbox.name)
  }
  return removed
}

async function isLeftover(sandbox: ListedSandbox, isOwned: ReapLeftoversInput['isOwned']): Promise<boolean> {
  if (sandbox.role === 'build') return sandbox.ageMs > BUILD_LIFE_MS
  if (sandbox.ageMs > sandbox.maxLifeMs) return true
  // A young one may belong to an owner that has not told the server yet.
  if (sandbox.ageMs < sandbox.leaseMs) return false
  return (await isOwned(sandbox)) === 'no'
}
