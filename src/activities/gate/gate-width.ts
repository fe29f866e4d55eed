import type { Recipe } from '../../contracts/recipe.types.ts'

/** Identities of the workers that poll for sandboxes, as `pid@host`; null if the server does not report them. */
export type SandboxPollers = () => Promise<string[] | null>

/** A host grades in four containers concurrently and pulls the images of as many further tasks. */
const TASKS_A_HOST = 8
/** The minimum width, so that a host that happens to restart does not slow a gate down for days. */
const LEAST = 16
const MOST = 2000

/** How many tasks of a gate may be in progress: the recipe's setting, otherwise the capacity of the polling hosts. */
export async function gateWidth({
  recipe,
  pollers,
}: {
  recipe: Recipe
  pollers: SandboxPollers
}): Promise<{ width: number }> {
  const stated = recipe.data.gate.width ?? null
  if (stated !== null) return { width: stated }
  // For some minutes the server also lists a restarted worker's old process.
  const hosts = new Set((await pollers())?.map((identity) => identity.replace(/^\d+@/, '')))
  return { width: Math.min(MOST, Math.max(LEAST, hosts.size * TASKS_A_HOST)) }
}
