/** Layers of images: tars whose bytes follow from their content alone, packed and named by their hashes. */
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
  /** Of the packed tar, by which registries name it. */
  digest: string
  /** Of the tar itself, by which an image names it. */
  diffId: string
  size: number
  /** In the image's history. */
  says: string
}

/** Numeric user and group of all processes: what a pod of a training job has too, so that they share one file system. */
export const USER = 1000

/** One date for all files: layers of equal content are one layer. 2000-01-01. */
const MTIME = '@946684800'
const PACK_MS = 15 * 60_000

interface PackFolderInput {
  folder: string
  /** Paths in the folder that belong to the user of the image; all others are root's. @default none */
  owned?: string[]
  /** Folders below `root` that lie below `at` in the image. @default none */
  beside?: { root: string; folders: string[]; excluded: string[]; at: string }
  /** Folder of blobs; the layer is put there under its digest. */
  blobs: string
  says: string
}

/** No right of root is needed: owners are written into the tar, not taken from the files. */
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
    // Names of the entries alone: where a link leads stays as it is.
    const moved = ['--transform', `s,^,./${beside.at}/,rSH`, '--directory', beside.root]
    await pack([...root, ...without(beside.excluded), '--append', ...moved, ...beside.folders])
  }
  return keep({ tar, blobs, says })
}

async function keep({ tar, blobs, says }: { tar: string; blobs: string; says: string }): Promise<Layer> {
  const [plain, packed] = [createHash('sha256'), createHash('sha256')]
  const counted = { bytes: 0 }
  const draft = `${tar}.gz`
  // Node writes no time and no name into the header.
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

/** A gzip-compressed tar as it is, such as the base image's. */
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

/** One file of a compressed tar, as text. */
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
