import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { WeightStore } from '../../../contracts/artifacts.types.ts'
import { errnoOf } from '../../../platform/files.ts'

/** Every machine sees the directory: weights are where the trainer writes them. */
export const directoryWeights: WeightStore = {
  local: (policy) => policy,
  async readFile({ policy: { uri, checkpointUri }, part, name }) {
    const directory = part === 'policy' ? uri : checkpointUri
    // A chat endpoint has an address for a directory.
    if (directory === null || !directory.startsWith('file:')) return null
    try {
      return await readFile(join(fileURLToPath(directory), name))
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return null
      throw error
    }
  },
  kept: async () => null,
  keep: async ({ policy }) => policy,
  use: (_, work) => work(),
  bringFile: async () => {},
  requireSeenBy: () => {},
}
