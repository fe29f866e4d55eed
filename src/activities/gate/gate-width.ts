import type { Recipe } from '../../contracts/recipe.types.ts'

/** Identities of the workers that poll for sandboxes, as `pid@host`; null where the server does not say. */
export type SandboxPollers = () => Promise<string[] | null>

/** Four containers of a host grade, and as many tasks have their image brought meanwhile. */
const TASKS_A_HOST = 8
/** One host that is being started anew must not narrow a gate for days. */
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
  // A worker that was started anew is remembered under its old process for some minutes.
  const hosts = new Set((await pollers())?.map((identity) => identity.replace(/^\d+@/, '')))
  return { width: Math.min(MOST, Math.max(LEAST, hosts.size * TASKS_A_HOST)) }
}
