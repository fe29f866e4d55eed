import { chmod, copyFile, lstat, open, readdir, readFile, realpath, rename, rm, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { ArtifactStore } from '../../../contracts/artifacts.types.ts'
import { isLonghaulError, LonghaulError } from '../../../contracts/errors.ts'
import { policyKeys } from '../../../contracts/keys.ts'
import type { PolicyRef } from '../../../contracts/policy.types.ts'
import { compareText } from '../../../domain/hash-order.ts'
import { TEMP_DIRECTORY } from '../../artifacts/store-rules.ts'
import { errnoOf, makeDirectory, syncPath } from '../../../platform/files.ts'
import { tempName } from '../../../platform/temp-files.ts'
import { type Rope, stateRope } from './rope-statement.ts'
import { sha256Hex, sha256OfFile } from '../../../platform/hash.ts'

export const MANIFEST = 'MANIFEST.json'
export const COMMITTED = 'COMMITTED'

/** Required for both sampling and training. */
const CONFIG = 'config.json'
const NEEDED = [CONFIG, 'tokenizer.json']

export interface ImportBasePolicyInput {
  store: ArtifactStore
  /** Directory of a Hugging Face model. */
  directory: string
  /** Written into the policy's config.json, so that every reader of the policy sees it; null keeps the model's own rope. @default null */
  rope?: Rope | null
}

/**
 * Copies a model directory into the store as an immutable policy and writes its reference. The version is the hash of the manifest: the
 * same weights are the same policy wherever they were copied from, and repeating the import finds the existing policy. With a rope the
 * result is another model and another version.
 * @throws LonghaulError `Config.NotFound` if the directory does not exist, `Config.Invalid` if it holds no model or the model cannot
 * have the rope
 */
export async function importBasePolicy({ store, directory, rope = null }: ImportBasePolicyInput): Promise<PolicyRef> {
  const source = await checkModelDirectory(resolve(directory))
  const rewritten = rope === null ? {} : await configWithRope(source, rope)
  const manifest = await describeDirectory(source, rewritten)
  const manifestSha256 = sha256Hex(manifest.bytes)
  const version = `v000000-${manifestSha256.slice(0, 8)}`
  const known = await store.weights.kept(version)
  if (known !== null) return writePolicyRef({ store, ref: known })
  const final = store.path(policyKeys.directory(version))
  if (!(await isCommitted(final, manifestSha256))) {
    const staging = join(store.path('policies'), '..', TEMP_DIRECTORY, tempName())
    const { files, bytes } = manifest
    await copyCommitted({ source, staging, final, files, rewritten, manifest: bytes, manifestSha256 })
  }
  const ref: PolicyRef = {
    version,
    uri: pathToFileURL(final).href,
    manifestSha256,
    globalStep: 0,
    checkpointUri: null,
    checkpointSha256: null,
  }
  return writePolicyRef({ store, ref: await store.weights.keep({ policy: ref }) })
}

/** Publishes a reference, so that the policy can be resolved by its version. Idempotent. */
export async function writePolicyRef({ store, ref }: { store: ArtifactStore; ref: PolicyRef }): Promise<PolicyRef> {
  return (await store.claimRecord(policyKeys.ref(ref.version), ref)).record
}

/** Returns true if the directory's marker names this manifest and the manifest has that hash. */
export async function isCommitted(directory: string, manifestSha256: string): Promise<boolean> {
  return (await committedManifest(directory))?.sha256 === manifestSha256
}

/** Returns the manifest of a committed directory; null if it is absent, not committed or incomplete. */
export async function committedManifest(
  directory: string,
): Promise<{ sha256: string; manifest: Record<string, unknown> } | null> {
  try {
    const [bytes, marker] = await Promise.all([
      readFile(join(directory, MANIFEST)),
      readFile(join(directory, COMMITTED), 'utf8'),
    ])
    const sha256 = sha256Hex(bytes)
    if (marker.trim() !== sha256) return null
    return { sha256, manifest: JSON.parse(bytes.toString('utf8')) as Record<string, unknown> }
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR' || error instanceof SyntaxError) return null
    throw error
  }
}

async function checkModelDirectory(directory: string): Promise<string> {
  const names = await readdir(directory).catch(async (cause: unknown) => {
    const command = await howToMake(directory)
    throw new LonghaulError({
      code: 'Config.NotFound',
      message:
        command === null
          ? 'Expected model.base to be a directory with a Hugging Face model'
          : `Expected model.base to be made first: ${command}`,
      details: { directory },
      cause,
    })
  })
  const missing = NEEDED.find((name) => !names.includes(name))
  const hasWeights = names.some((name) => name.endsWith('.safetensors'))
  if (missing === undefined && hasWeights) return realpath(directory)
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected model.base to hold config.json, tokenizer.json and *.safetensors, found no ${missing ?? 'weights'}`,
    details: { directory },
  })
}

/** Returns the command that makes a base policy that the project describes and does not ship. It is read from the file MAKE beside
 *  the directory. */
async function howToMake(directory: string): Promise<string | null> {
  const text = await readFile(join(dirname(directory), 'MAKE'), 'utf8').catch(() => null)
  return text === null ? null : text.trim()
}

/** New contents of the policy's files that differ from the source, by path. */
type Rewritten = Record<string, Buffer>

async function configWithRope(directory: string, rope: Rope): Promise<Rewritten> {
  const text = await readFile(join(directory, CONFIG), 'utf8')
  try {
    return { [CONFIG]: Buffer.from(stateRope(text, rope)) }
  } catch (cause) {
    if (isLonghaulError(cause)) {
      const { code, message, details } = cause
      throw new LonghaulError({ code, message, details: { ...details, directory }, cause })
    }
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: 'Expected config.json of model.base to be JSON',
      details: { directory },
      cause,
    })
  }
}

interface ListedFile {
  path: string
  bytes: number
  sha256: string
}

/** Builds a manifest in the trainer's format: sorted names, sizes and hashes, without times or locations. */
async function describeDirectory(
  directory: string,
  rewritten: Rewritten,
): Promise<{ bytes: Buffer; files: ListedFile[] }> {
  const files: ListedFile[] = []
  for (const path of (await listFiles(directory, '')).sort(compareText)) {
    const file = join(directory, path)
    const own = rewritten[path]
    files.push(
      own === undefined
        ? { path, bytes: (await stat(file)).size, sha256: await sha256OfFile(file) }
        : { path, bytes: own.length, sha256: sha256Hex(own) },
    )
  }
  const manifest = { schema: 'longhaul.manifest/1', kind: 'policy', files }
  return { bytes: Buffer.from(`${JSON.stringify(manifest, null, 1)}\n`), files }
}

/** Lists the files below a directory. Links to files are followed, because hub caches consist of them. Hidden names and old seals
 *  are skipped. */
async function listFiles(root: string, below: string): Promise<string[]> {
  const paths: string[] = []
  for (const name of await readdir(join(root, below))) {
    const path = below === '' ? name : `${below}/${name}`
    if (name.startsWith('.') || path === MANIFEST || path === COMMITTED) continue
    const isDirectory = (await stat(join(root, path))).isDirectory()
    if (!isDirectory) paths.push(path)
    // A linked directory may point back up, so only real directories are walked.
    else if ((await lstat(join(root, path))).isDirectory()) paths.push(...(await listFiles(root, path)))
  }
  return paths
}

interface CopyInput {
  source: string
  /** A directory in the store's temporary directory, which is removed after its writer has died. */
  staging: string
  final: string
  files: readonly ListedFile[]
  rewritten: Rewritten
  manifest: Uint8Array
  manifestSha256: string
}

/** Copies atomically: staging in the same file system, everything synced, one rename, the marker last. An interrupted copy never
 *  looks like a policy. */
async function copyCommitted(input: CopyInput): Promise<void> {
  const { source, staging, final, files, rewritten, manifest, manifestSha256 } = input
  try {
    for (const { path, sha256 } of files) {
      const target = join(staging, path)
      await makeDirectory(dirname(target))
      const own = rewritten[path]
      if (own === undefined) {
        await copyFile(join(source, path), target)
        // A copy keeps its source's permissions, and safetensors restricts files to their owner. Trainer and servers may run as other
        // users.
        await chmod(target, 0o666 & ~process.umask())
        await syncPath(target)
      } else await writeSynced(target, own)
      if ((await sha256OfFile(target)) !== sha256) throw changed(source, path)
    }
    await writeSynced(join(staging, MANIFEST), manifest)
    await makeDirectory(dirname(final))
    await renameUnlessTaken(staging, final)
    await writeSynced(join(final, COMMITTED), `${manifestSha256}\n`)
    await syncPath(final)
    await syncPath(dirname(final))
  } finally {
    await rm(staging, { recursive: true, force: true })
  }
}

/** The name is the content's hash, so an existing directory has the same content: an importer was interrupted before the marker, or
 *  another one is running. */
async function renameUnlessTaken(staging: string, final: string): Promise<void> {
  try {
    await rename(staging, final)
  } catch (error) {
    if (errnoOf(error) !== 'ENOTEMPTY' && errnoOf(error) !== 'EEXIST') throw error
  }
}

async function writeSynced(path: string, data: Uint8Array | string): Promise<void> {
  const file = await open(path, 'w')
  try {
    await file.writeFile(data)
    await file.sync()
  } finally {
    await file.close()
  }
}

function changed(directory: string, file: string): LonghaulError {
  return new LonghaulError({
    code: 'Config.Invalid',
    message: 'Expected model.base not to change while it is imported, but a file changed',
    details: { directory, file },
  })
}
