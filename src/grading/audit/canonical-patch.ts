import type { AuditReason } from '../../contracts/audit.types.ts'

/**
 * Compares a captured patch with the patch that trusted Git makes of the resulting tree. Every line counts, except two parts of
 * headers that say nothing about the content: abbreviated hashes, and the function name behind `@@`, which a repository's attributes
 * choose.
 */
export function compareWithCanonical(captured: Uint8Array, canonical: Uint8Array): AuditReason | null {
  if (Buffer.compare(captured, canonical) === 0) return null
  const [theirs, ours] = [essence(captured), essence(canonical)]
  const differs = theirs.length !== ours.length || theirs.some((line, index) => line !== ours[index])
  if (!differs) return null
  const count = (lines: readonly string[]): number => lines.filter((line) => line === BINARY).length
  return count(theirs) > count(ours) ? 'binary-for-text' : 'patch-not-canonical'
}

const BINARY = 'GIT binary patch'
const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/

/** Splits at LF, as Git does, and simplifies headers only. */
function essence(patch: Uint8Array): string[] {
  const lines = Buffer.from(patch).toString('latin1').split('\n')
  let [source, target] = [0, 0]
  return lines.map((line) => {
    if (source > 0 || target > 0) {
      if (line.startsWith(' ') || line.startsWith('-')) source -= 1
      if (line.startsWith(' ') || line.startsWith('+')) target -= 1
      return line
    }
    const hunk = HUNK.exec(line)
    if (hunk !== null) {
      source = Number(hunk[2] ?? 1)
      target = Number(hunk[4] ?? 1)
      return hunk[0]
    }
    return line.replace(/^index [0-9a-f]+\.\.[0-9a-f]+/, 'index')
  })
}
