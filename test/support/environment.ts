/** Variables of this process that a test sets, and that are as before when it has ended. */
export type Variables = Readonly<Record<string, string | undefined>>

/**
 * Sets variables; undefined removes one.
 * @returns what brings back the whole environment of now, so that later changes are undone as well
 */
export function changeEnvironment(variables: Variables = {}): () => void {
  const before = { ...process.env }
  for (const [name, value] of Object.entries(variables)) {
    if (value === undefined) delete process.env[name]
    else process.env[name] = value
  }
  return () => {
    for (const name of Object.keys(process.env)) if (before[name] === undefined) delete process.env[name]
    Object.assign(process.env, before)
  }
}

/**
 * The same until its owner has ended, whether it passed or failed: a test (`t`), or a file (`{ after }` of node:test). Hooks run in the order
 * in which they are registered: one that needs these variables is registered before.
 */
export function useEnvironment(owner: { after(hook: () => void): void }, variables: Variables = {}): void {
  owner.after(changeEnvironment(variables))
}

/** Removes what names a running stack or server; a cache of downloads and the runner's own variables stay. */
export function withoutStack(): Variables {
  const named = Object.keys(process.env).filter((name) => /^(?:LONGHAUL_(?!CACHE$|TEST_)|TEMPORAL_)/.test(name))
  return Object.fromEntries(named.map((name) => [name, undefined]))
}
