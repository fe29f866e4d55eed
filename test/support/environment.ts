/** Environment variables that a test sets and restores at its end. */
export type Variables = Readonly<Record<string, string | undefined>>

/**
 * Sets variables; undefined removes one.
 * @returns a function that restores the whole current environment, and so undoes later changes too
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
 * Sets variables until the owner has ended, passed or failed: a test (`t`), or a file (`{ after }` of node:test). Hooks run in the
 * order of their registration, so a hook that needs these variables must be registered before.
 */
export function useEnvironment(owner: { after(hook: () => void): void }, variables: Variables = {}): void {
  owner.after(changeEnvironment(variables))
}

/** Removes variables that name a running stack or server, but keeps the download cache and the runner's own variables. */
export function withoutStack(): Variables {
  const named = Object.keys(process.env).filter((name) => /^(?:LONGHAUL_(?!CACHE$|TEST_)|TEMPORAL_)/.test(name))
  return Object.fromEntries(named.map((name) => [name, undefined]))
}
