const MISSING_NAMES = [
  /AttributeError: (?:type object |module |partially initialized module )?'[^'\n]*'(?: object)? has no attribute '([^'\n]+)'/g,
  /ImportError: cannot import name '([^'\n]+)'/g,
  /ModuleNotFoundError: No module named '([^'\n]+)'/g,
]

/**
 * Returns names that tests missed and that only the gold patch introduces, which no agent could guess from the statement. A name that
 * also occurs in unchanged or removed lines of the patch, or nowhere in it, was not introduced by it.
 * @param log output of the tests without the gold patch
 */
export function hiddenNames({ log, goldPatch }: { log: string; goldPatch: string }): string[] {
  const missed = new Set(
    MISSING_NAMES.flatMap((pattern) => [...log.matchAll(pattern)].map((match) => match[1]?.split('.').at(-1) ?? '')),
  )
  if (missed.size === 0) return []
  const lines = goldPatch.split('\n')
  const added = wordsOf(lines.filter((line) => line.startsWith('+')))
  const known = wordsOf(lines.filter((line) => /^[ -](?!-- )/.test(line)))
  return [...missed].filter((name) => added.has(name) && !known.has(name))
}

/** Returns the distinct log lines that `hiddenNames` reads. Nothing else of the log must be stored. */
export function missedNameLines(log: string): string[] {
  if (!MISSING_NAMES.some((pattern) => log.search(pattern) >= 0)) return []
  const lines = log.split('\n').filter((line) => MISSING_NAMES.some((pattern) => line.search(pattern) >= 0))
  return [...new Set(lines)]
}

function wordsOf(lines: readonly string[]): Set<string> {
  return new Set(lines.join('\n').match(/[\p{L}\p{N}_]+/gu) ?? [])
}
