/** Mappings merge key by key; everything else, lists included, replaces what was there. Neither argument changes. */
export function mergeOverrides(base: unknown, overrides: unknown): unknown {
  if (!isMapping(base) || !isMapping(overrides)) return overrides
  const merged = new Map(Object.entries(base))
  for (const [key, value] of Object.entries(overrides)) {
    merged.set(key, merged.has(key) ? mergeOverrides(merged.get(key), value) : value)
  }
  // fromEntries defines own properties, so a key like __proto__ stays data.
  return Object.fromEntries(merged)
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
