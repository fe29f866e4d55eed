/** Images of a few files, as archives for `ctr images import`, because a test cluster pulls nothing. */
import { createHash } from 'node:crypto'
import { chmod, copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { requireCommand } from '../../../src/platform/run-command.ts'

export interface SmallImage {
  /** Includes the tag. */
  name: string
  directories?: string[]
  /** Path in the image → executable file of this machine. */
  files?: Record<string, string>
  /** Path in the image → target. */
  links?: Record<string, string>
  entrypoint?: string[]
  env?: Record<string, string>
}

export async function writeSmallImage(image: SmallImage, archive: string): Promise<void> {
  const work = await mkdtemp(join(tmpdir(), 'small-image-'))
  try {
    const [root, parts] = [join(work, 'root'), join(work, 'parts')]
    await Promise.all([mkdir(root, { mode: 0o755 }), mkdir(parts)])
    for (const path of image.directories ?? []) await mkdir(join(root, path), { recursive: true, mode: 0o755 })
    for (const [path, source] of Object.entries(image.files ?? {})) {
      await mkdir(dirname(join(root, path)), { recursive: true })
      await copyFile(source, join(root, path))
      await chmod(join(root, path), 0o755)
    }
    for (const [path, target] of Object.entries(image.links ?? {})) {
      await mkdir(dirname(join(root, path)), { recursive: true })
      await symlink(target, join(root, path))
    }
    const layer = join(parts, 'layer.tar')
    await tar(layer, root, '.')
    const config = {
      architecture: process.arch === 'x64' ? 'amd64' : process.arch,
      os: 'linux',
      config: {
        ...(image.entrypoint === undefined ? {} : { Entrypoint: image.entrypoint }),
        Env: Object.entries(image.env ?? {}).map(([name, value]) => `${name}=${value}`),
      },
      rootfs: { type: 'layers', diff_ids: [`sha256:${sha256(await readFile(layer))}`] },
    }
    await writeFile(join(parts, 'config.json'), JSON.stringify(config))
    const manifest = [{ Config: 'config.json', RepoTags: [image.name], Layers: ['layer.tar'] }]
    await writeFile(join(parts, 'manifest.json'), JSON.stringify(manifest))
    await tar(archive, parts, 'manifest.json', 'config.json', 'layer.tar')
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

async function tar(archive: string, directory: string, ...names: string[]): Promise<void> {
  const args = ['--create', '--numeric-owner', '--owner=0', '--group=0', '--file', archive, '--directory', directory]
  await requireCommand({ what: 'Packing an image', command: 'tar', args: [...args, ...names], timeoutMs: 60_000 })
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}
