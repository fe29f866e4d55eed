import { createHash } from 'node:crypto'

/** SHA-256 as lower-case hex; injected into the pure rules of `domain`, which know no node built-ins. */
export function sha256Hex(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex')
}
