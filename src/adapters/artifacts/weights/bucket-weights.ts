/** Policies and checkpoints in a bucket: blobs, and one record per version, which is claimed after all of its blobs are stored. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { ArtifactStore, WeightsFolder, WeightsPart, WeightStore } from '../../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../../contracts/errors.ts'
import { policyKeys } from '../../../contracts/keys.ts'
import type { PolicyRef } from '../../../contracts/policy.types.ts'
import { exists, writeFileAtomically } from '../../../platform/files.ts'
import { checkKey, missingArtifact } from '../store-rules.ts'
import {
  bytesOfTree,
  holdsTree,
  readFromTree,
  storeTree,
  type TreeFile,
  writeTree,
  type WeightsRecord,
} from './stored-tree.ts'
import { createWeightsCache, type WeightsCache, type WeightsPlace } from './weights-cache.ts'

/** Where weights are stored on this machine. */
export interface LocalWeights extends WeightsPlace {
  /** True if an operator chose the directory, which other machines see under the same path. */
  isShared: boolean
}

export interface BucketWeightsOptions {
  store: Omit<ArtifactStore, 'path' | 'weights'>
  /** Null for commands that only read, which store no weights. */
  place: LocalWeights | null
}

export interface BucketWeights {
  path(key: string): string
  weights: WeightStore
}

/** Number of version records kept in memory; they never change. */
const REMEMBERED = 32

export function createBucketWeights({ store, place }: BucketWeightsOptions): BucketWeights {
  const cache = place === null ? null : createWeightsCache(place)
  const known = new Map<string, WeightsRecord>()

  const recordOf = async (version: string): Promise<WeightsRecord | null> => {
    const found = known.get(version) ?? (await store.readRecord<WeightsRecord>(policyKeys.weights(version)))
    if (found !== null) remember(version, found)
    return found
  }
  const remember = (version: string, record: WeightsRecord): void => {
    known.set(version, record)
    const [oldest] = known.keys()
    if (known.size > REMEMBERED && oldest !== undefined) known.delete(oldest)
  }

  const treeOf = async (version: string, part: WeightsPart): Promise<TreeFile[]> => {
    const tree = (await recordOf(version))?.trees[part]
    if (tree === undefined || tree === null) throw missingArtifact(policyKeys.weights(version))
    return tree
  }

  const here = (): WeightsCache => {
    if (cache !== null) return cache
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected a worker to read weights: this command has no directory for those of ${store.locate('policies')}`,
    })
  }
  const path = (key: string): string => here().path(checkKey(key))
  const local = (policy: PolicyRef): PolicyRef => ({
    ...policy,
    uri: pathToFileURL(path(policyKeys.directory(policy.version))).href,
    checkpointUri:
      policy.checkpointUri === null ? null : pathToFileURL(path(policyKeys.checkpoint(policy.version))).href,
  })

  const bringTree = async (version: string, part: WeightsPart, signal: AbortSignal | undefined): Promise<void> => {
    const files = await treeOf(version, part)
    await here().bring({
      key: keyOf(version, part),
      bytes: bytesOfTree(files),
      isWhole: (directory) => holdsTree(directory, files),
      fill: (directory) => writeTree(store, { files, directory, signal }),
    })
  }

  /**
   * Downloads a batch, which has few files. Each is read whole and checked against the hash stored with it. They are named and not
   * listed, because a stale listing would leave one out, and the directory would count as whole from then on.
   */
  const bringFolder = ({ key: folder, files }: WeightsFolder, signal: AbortSignal | undefined): Promise<void> =>
    here().bring({
      key: checkKey(folder),
      bytes: 0,
      isWhole: async (directory) =>
        (await Promise.all(files.map((name) => exists(join(directory, name))))).every((isThere) => isThere),
      async fill(directory) {
        for (const name of files) {
          signal?.throwIfAborted()
          const key = checkKey(`${folder}/${name}`)
          const bytes = await store.read(key)
          if (bytes === null) throw missingArtifact(key)
          await writeFile(join(directory, name), bytes, { flush: true })
        }
      },
    })

  return {
    path,
    weights: {
      local,
      async readFile({ policy, part, name }) {
        const files = (await recordOf(policy.version))?.trees[part] ?? []
        const file = files.find((one) => one.path === name)
        return file === undefined ? null : readFromTree(store, file)
      },
      kept: async (version) => (await recordOf(version))?.policy ?? null,
      async keep({ policy, signal }) {
        const { version, uri, checkpointUri } = policy
        const before = await recordOf(version)
        if (before !== null) return before.policy
        const keys = [keyOf(version, 'policy'), ...(checkpointUri === null ? [] : [keyOf(version, 'checkpoint')])]
        return here().hold({ keys }, async () => {
          const record: WeightsRecord = {
            schema: 'longhaul.weights/1',
            policy: {
              ...policy,
              uri: store.uri(policyKeys.directory(version)),
              checkpointUri: checkpointUri === null ? null : store.uri(policyKeys.checkpoint(version)),
            },
            trees: {
              policy: await storeTree(store, { directory: fileURLToPath(uri), signal }),
              checkpoint:
                checkpointUri === null
                  ? null
                  : await storeTree(store, { directory: fileURLToPath(checkpointUri), signal }),
            },
          }
          const claimed = await store.claimRecord(policyKeys.weights(version), record)
          remember(version, claimed.record)
          await here().makeRoom(0)
          return claimed.record.policy
        })
      },
      use({ policy: { version }, part, folders = [], afterMs = 0, signal }, work) {
        return here().hold({ keys: [keyOf(version, part), ...folders.map(({ key }) => key)], afterMs }, async () => {
          await bringTree(version, part, signal)
          for (const folder of folders) await bringFolder(folder, signal)
          return work()
        })
      },
      async bringFile(ref) {
        const target = path(ref.key)
        if (!(await exists(target)))
          await writeFileAtomically(target, Buffer.from(await store.get(ref)).toString('utf8'))
      },
      requireSeenBy(program) {
        if (place?.isShared === true) return
        throw new LonghaulError({
          code: 'Config.Invalid',
          message: `Expected LONGHAUL_WEIGHTS to name a directory that ${program} sees under the same path: the artifact store is ${store.locate('policies')}, and weights are downloaded from it to a directory of the trainer worker`,
        })
      },
    },
  }
}

function keyOf(version: string, part: WeightsPart): string {
  return part === 'policy' ? policyKeys.directory(version) : policyKeys.checkpoint(version)
}
