/** The application's files in an image: those of the npm package, and the packages that it needs to run. */
import { chmod, copyFile, mkdir, readFile, readdir, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { exists } from '../../src/platform/files.ts'
import { requireCommand } from '../../src/platform/run-command.ts'

/** The application's folder in an image. */
export const HOME = 'opt/longhaul'
const COPY_MS = 5 * 60_000

interface StageInput {
  /** The checkout, with `node_modules`. */
  root: string
  /** Output of `scripts/build.mjs`. */
  dist: string
  /** Root of the layer. */
  folder: string
}

/** Stages all files but `node_modules`, which is packed from the checkout directly. */
export async function stageApplication({ root, dist, folder }: StageInput): Promise<void> {
  const home = join(folder, HOME)
  for (const path of (await packagedFiles(root)).filter((file) => !file.startsWith('dist/'))) {
    await mkdir(dirname(join(home, path)), { recursive: true })
    await copyFile(join(root, path), join(home, path))
  }
  const args = ['-R', dist, join(home, 'dist')]
  await requireCommand({ what: 'Copying dist', command: 'cp', args, timeoutMs: COPY_MS })
  await writeFile(join(home, 'package.json'), `${JSON.stringify(await runtimeManifest(root), null, 2)}\n`)
  await chmod(join(home, 'bin/longhaul.mjs'), 0o755)
  await mkdir(join(folder, 'usr/local/bin'), { recursive: true })
  await symlink(`/${HOME}/bin/longhaul.mjs`, join(folder, 'usr/local/bin/longhaul'))
}

/** Files of the npm package. */
async function packagedFiles(root: string): Promise<string[]> {
  const { stdout } = await requireCommand({
    what: 'Listing the files of the package',
    command: 'npm',
    args: ['pack', '--dry-run', '--json', '--ignore-scripts'],
    cwd: root,
    timeoutMs: 5 * 60_000,
  })
  const [{ files }] = JSON.parse(stdout) as [{ files: { path: string }[] }]
  return files.map(({ path }) => path)
}

interface LockedPackage {
  name?: string
  version?: string
  dev?: boolean
  optional?: boolean
}

export interface RuntimePackages {
  /** Folders of packages below the checkout. A folder includes its subfolders. */
  folders: string[]
  /** Paths below these folders that this platform does not need. */
  excluded: string[]
  /** `name@version` of each package. */
  names: ReadonlySet<string>
}

/**
 * The locked packages except development dependencies. Optional packages count if npm has installed them, that is, for this platform.
 * Node itself has its own layer.
 */
export async function runtimePackages(root: string): Promise<RuntimePackages> {
  const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, LockedPackage>
  }
  const names = new Set<string>()
  const folders: string[] = []
  for (const [path, { name, version, dev, optional }] of Object.entries(lock.packages)) {
    if (path === '' || dev === true || path.startsWith('node_modules/node-linux-')) continue
    if (!(await exists(join(root, path)))) {
      if (optional === true) continue
      throw new Error(`Expected ${path} of the lock file to be installed: npm ci`)
    }
    names.add(`${name ?? path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)}@${version}`)
    if (!folders.some((other) => path.startsWith(`${other}/`))) folders.push(path)
  }
  return { folders, excluded: await foreignReleases(root), names }
}

/** The SDK's native libraries of other platforms, 30 MB each. */
async function foreignReleases(root: string): Promise<string[]> {
  const releases = 'node_modules/@temporalio/core-bridge/releases'
  const arch = { x64: 'x86_64', arm64: 'aarch64' }[process.arch as string] ?? process.arch
  const own = `${arch}-unknown-linux-gnu`
  const names = await readdir(join(root, releases))
  if (!names.includes(own)) throw new Error(`Expected ${own} among the SDK's releases, got ${names.join(', ')}`)
  return names.filter((other) => other !== own).map((name) => `${releases}/${name}`)
}

/** package.json without the fields that only a checkout needs. */
async function runtimeManifest(root: string): Promise<object> {
  const {
    devDependencies: _dev,
    optionalDependencies: _optional,
    scripts: _scripts,
    files: _files,
    ...kept
  } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as Record<string, unknown>
  return kept
}
