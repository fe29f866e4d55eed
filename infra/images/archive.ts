/** An image as one file for both kinds of loaders: the OCI layout with Docker's own manifest. */
import { mkdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sha256Hex } from '../../src/platform/hash.ts'
import { requireCommand } from '../../src/platform/run-command.ts'
import { type Layer, USER } from './layers.ts'

export interface ImageInput {
  /** Image name with tag. */
  name: string
  layers: Layer[]
  env: Record<string, string>
  labels: Record<string, string>
}

/** A constant date, so that equal layers and settings give an equal image. */
const CREATED = '2000-01-01T00:00:00Z'

const ARCHITECTURES: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' }

/** Writes the layout around the blobs in `folder/blobs/sha256` and packs it. */
export async function writeImage(
  folder: string,
  { name, layers, env, labels }: ImageInput,
  archive: string,
): Promise<{ digest: string; bytes: number }> {
  const architecture = ARCHITECTURES[process.arch] ?? process.arch
  const config = await blob(folder, 'application/vnd.oci.image.config.v1+json', {
    created: CREATED,
    architecture,
    os: 'linux',
    config: {
      User: `${USER}:${USER}`,
      Env: Object.entries(env).map(([key, value]) => `${key}=${value}`),
      Entrypoint: ['longhaul'],
      Cmd: ['--help'],
      WorkingDir: '/var/lib/longhaul',
      Labels: labels,
      // Node runs as PID 1 and handles this signal.
      StopSignal: 'SIGTERM',
    },
    rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => diffId) },
    history: layers.map(({ says }) => ({ created: CREATED, created_by: says })),
  })
  const manifest = await blob(folder, 'application/vnd.oci.image.manifest.v1+json', {
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    config,
    layers: layers.map(({ digest, size }) => ({
      mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip',
      digest,
      size,
    })),
  })
  const write = (path: string, value: object): Promise<void> => writeFile(join(folder, path), JSON.stringify(value))
  await write('oci-layout', { imageLayoutVersion: '1.0.0' })
  await write('index.json', {
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.index.v1+json',
    manifests: [
      {
        ...manifest,
        platform: { architecture, os: 'linux' },
        annotations: {
          'io.containerd.image.name': name,
          'org.opencontainers.image.ref.name': name.slice(name.lastIndexOf(':') + 1),
        },
      },
    ],
  })
  const path = (digest: string): string => `blobs/sha256/${digest.slice('sha256:'.length)}`
  await write('manifest.json', [
    { Config: path(config.digest), RepoTags: [name], Layers: layers.map(({ digest }) => path(digest)) },
  ])
  const draft = `${archive}.new`
  await requireCommand({
    what: 'Packing the image',
    command: 'tar',
    args: ['--numeric-owner', '--owner=0', '--group=0', '--sort=name', '--mtime=@0', '--create', '--file', draft]
      .concat('--directory', folder)
      .concat('oci-layout', 'index.json', 'manifest.json', 'blobs'),
    timeoutMs: 15 * 60_000,
  })
  await rename(draft, archive)
  return { digest: manifest.digest, bytes: (await stat(archive)).size }
}

/** Creates an empty folder for an image's blobs. */
export async function emptyBlobs(folder: string): Promise<string> {
  const blobs = join(folder, 'blobs/sha256')
  await rm(folder, { recursive: true, force: true })
  await mkdir(blobs, { recursive: true })
  return blobs
}

async function blob(
  folder: string,
  mediaType: string,
  value: object,
): Promise<{ mediaType: string; digest: string; size: number }> {
  const text = JSON.stringify(value)
  const hash = sha256Hex(text)
  await writeFile(join(folder, 'blobs/sha256', hash), text)
  return { mediaType, digest: `sha256:${hash}`, size: Buffer.byteLength(text) }
}
