/** Layers of images: compressed tars whose bytes depend on their content only, named by their hashes. */
import { spawn } from 'node:child_process'
import { createHash, type Hash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { Transform } from 'node:stream'
import { createGunzip, createGzip } from 'node:zlib'
import { requireCommand } from '../../src/platform/run-command.ts'

export interface Layer {
  /** Hash of the compressed tar, by which registries name the layer. */
  digest: string
  /** Hash of the uncompressed tar, by which an image's config names the layer. */
  diffId: string
  size: number
  /** Text in the image's history. */
  says: string
}

/** Numeric user and group of all processes. Pods of training jobs have the same, so that they can share a file system. */
export const USER = 1000

/** A constant date of all files, 2000-01-01, so that equal content gives equal layers. */
const MTIME = '@946684800'
const PACK_MS = 15 * 60_000

interface PackFolderInput {
  folder: string
  /** Paths in the folder that belong to the image's user; all others belong to root. @default none */
  owned?: string[]
  /** Folders below `root` that are packed below `at`. @default none */
  beside?: { root: string; folders: string[]; excluded: string[]; at: string }
  /** Folder into which the layer is written, named by its digest. */
  blobs: string
  says: string
}

/** Packs a folder as a layer. Needs no root: it sets owners in the tar instead of taking them from the files. */
export async function packFolder({ folder, owned = [], beside, blobs, says }: PackFolderInput): Promise<Layer> {
  const tar = join(blobs, 'layer.tar')
  const fixed = ['--numeric-owner', '--sort=name', `--mtime=${MTIME}`, '--hard-dereference', '--format=posix']
  const plain = ['--pax-option=delete=atime,delete=ctime', '--mode=u+rw,a+rX,go-w', '--file', tar]
  const pack = (args: string[]) =>
    requireCommand({ what: `Packing ${says}`, command: 'tar', args: [...fixed, ...plain, ...args], timeoutMs: PACK_MS })
  const [root, user] = [0, USER].map((id) => [`--owner=${id}`, `--group=${id}`]) as [string[], string[]]
  const without = (paths: string[]): string[] => ['--anchored', ...paths.map((path) => `--exclude=${path}`)]
  await pack([...root, ...without(owned.map((path) => `./${path}`)), '--create', '--directory', folder, '.'])
  for (const path of owned) await pack([...user, '--append', '--directory', folder, `./${path}`])
  if (beside !== undefined) {
    // Rewrites the names of entries only, not the targets of links.
    const moved = ['--transform', `s,^,./${beside.at}/,rSH`, '--directory', beside.root]
    await pack([...root, ...without(beside.excluded), '--append', ...moved, ...beside.folders])
  }
  return keep({ tar, blobs, says })
}

async function keep({ tar, blobs, says }: { tar: string; blobs: string; says: string }): Promise<Layer> {
  const [plain, packed] = [createHash('sha256'), createHash('sha256')]
  const counted = { bytes: 0 }
  const draft = `${tar}.gz`
  // Node's gzip writes neither time nor name into the header.
  await pipeline(
    createReadStream(tar),
    through(plain),
    createGzip({ level: 1 }),
    through(packed, counted),
    createWriteStream(draft),
  )
  await rm(tar)
  return { ...(await named({ draft, blobs, packed })), diffId: digestOf(plain), size: counted.bytes, says }
}

/** Takes a gzip-compressed tar, such as the base image's, unchanged as a layer. */
export async function takeArchive({
  archive,
  blobs,
  says,
}: {
  archive: string
  blobs: string
  says: string
}): Promise<Layer> {
  const [plain, packed] = [createHash('sha256'), createHash('sha256')]
  const counted = { bytes: 0 }
  const draft = join(blobs, 'archive.tar.gz')
  await pipeline(createReadStream(archive), through(packed, counted), createWriteStream(draft))
  await pipeline(createReadStream(draft), createGunzip(), through(plain), async (bytes) => {
    for await (const _ of bytes);
  })
  return { ...(await named({ draft, blobs, packed })), diffId: digestOf(plain), size: counted.bytes, says }
}

async function named({
  draft,
  blobs,
  packed,
}: {
  draft: string
  blobs: string
  packed: Hash
}): Promise<{ digest: string }> {
  const digest = digestOf(packed)
  await rename(draft, join(blobs, digest.slice('sha256:'.length)))
  return { digest }
}

function through(hash: Hash, counted = { bytes: 0 }): Transform {
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk)
      counted.bytes += chunk.length
      done(null, chunk)
    },
  })
}

function digestOf(hash: Hash): string {
  return `sha256:${hash.digest('hex')}`
}

/** Text of one file in a compressed tar. */
export async function readArchived(archive: string, path: string): Promise<string> {
  const child = spawn('tar', ['--extract', '--to-stdout', '--gzip', '--file', archive, path], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: PACK_MS,
  })
  const chunks: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
  const code = await new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  if (code !== 0) throw new Error(`Expected ${path} in ${archive}`)
  return Buffer.concat(chunks).toString('utf8')
}
