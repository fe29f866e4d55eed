import { sha256 } from '../platform/files.ts'
import type { StackPaths } from './paths.ts'

/** Names a stack among all that share a private engine: two may have one name in different data directories. */
export function engineUserKey({ name, dataDir }: Pick<StackPaths, 'name' | 'dataDir'>): string {
  return `${name}-${sha256(dataDir).slice(0, 8)}`
}
