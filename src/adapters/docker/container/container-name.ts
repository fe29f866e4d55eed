import { createHash } from 'node:crypto'

const MAX_LENGTH = 120

/** A name the engine accepts, equal for equal parts. Characters that are not allowed, and length, cost a hash suffix,
 *  so that two different ids never share a container. */
export function containerName(parts: readonly (string | number)[]): string {
  const plain = ['lh', ...parts].join('-')
  // A slash is how ids are built, not a rare character: it alone needs no hash.
  const safe = plain.replaceAll('/', '-').replaceAll(/[^A-Za-z0-9_.-]/g, '_')
  if (safe === plain.replaceAll('/', '-') && safe.length <= MAX_LENGTH) return safe
  const hash = createHash('sha256').update(plain).digest('hex').slice(0, 12)
  return `${safe.slice(0, MAX_LENGTH - hash.length - 1)}-${hash}`
}
