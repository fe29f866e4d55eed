import type { Recipe } from '../../contracts/recipe.types.ts'

/** Identities of the workers that poll for sandboxes, as `pid@host`; null where the server does not say. */
export type SandboxPollers = () => Promise<string[] | null>

/** A host grades in four containers at once and pulls the images of as many further tasks. */
const TASKS_A_HOST = 8
/** The least width, so that a host that happens to restart does not narrow a gate for days. */
const LEAST = 16
const MOST = 2000

/** How many tasks of a gate may be under way: what the recipe says, else what the hosts that poll can take. */
export async function gateWidth({
  recipe,
  pollers,
}: {
  recipe: Recipe
  pollers: SandboxPollers
}): Promise<{ width: number }> {
  const stated = recipe.data.gate.width ?? null
  if (stated !== null) return { width: stated }
  // The server lists a restarted worker under its old process too, for some minutes.
  const hosts = new Set((await pollers())?.map((identity) => identity.replace(/^\d+@/, '')))
  return { width: Math.min(MOST, Math.max(LEAST, hosts.size * TASKS_A_HOST)) }
}
