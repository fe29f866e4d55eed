/**
 * Builds images of the workers without a container engine or a registry:
 *
 *   npm run images -- --output out/images                          # worker and sandbox
 *   npm run images -- --output out/images --target trainer         # gigabytes: PyTorch with CUDA
 *
 * Each image is one archive that `docker load`, `ctr images import`, `skopeo` and `crane` read, with a bill of materials (CycloneDX) beside
 * it. Debian comes from the archive of the sandbox base image, Node and the packages from the installation of the lock file. With a
 * registry and an engine, worker/Dockerfile makes the same images.
 */
import { cp, copyFile, link, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { builtRunnerName, compileRunner } from '../../src/adapters/docker/sandbox/runner-volume.ts'
import { ensureBaseArchive } from '../../src/adapters/docker/images/base-image.ts'
import { exists, writeFileAtomically } from '../../src/platform/files.ts'
import { abortOnInterrupt } from '../../src/platform/interrupts.ts'
import { requireCommand } from '../../src/platform/run-command.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { preparedPython } from '../../src/stack/setup/python-env.ts'
import { findProgram } from '../../src/stack/setup/system-packages.ts'
import { HOME, runtimePackages, stageApplication } from './application.ts'
import { emptyBlobs, writeImage } from './archive.ts'
import { type Layer, packFolder, readArchived, takeArchive, USER } from './layers.ts'
import { type Component, debianComponents, imageBom, npmBom, programComponent, pythonComponents } from './sbom.ts'

/** `worker`: control and artifacts workers. `sandbox`: a host of sandboxes. `trainer`: the trainer's worker and its jobs. */
export const TARGETS = ['worker', 'sandbox', 'trainer'] as const
export type Target = (typeof TARGETS)[number]

const ROOT = resolve(import.meta.dirname, '../..')
/** Folder of the trainer's Python environment in its image. */
const PYTHON = 'opt/longhaul-python'
const WRITABLE = 'var/lib/longhaul'
/** A build takes half a minute on two idle cores. */
const BUILD_MS = 15 * 60_000

export interface BuildImagesInput {
  targets: readonly Target[]
  /** Folder for the archives. */
  output: string
  /** First part of the images' names, `REPOSITORY/TARGET:TAG`. */
  repository: string
  tag: string
  cacheDir: string
  /** For the trainer: a virtual environment of Python 3.11. @default the one that the set-up has made from the lock file */
  python?: string | undefined
  /** For the trainer, whose launcher of Kubernetes jobs calls it. @default the one on PATH */
  kubectl?: string | undefined
  log: (line: string) => void
  signal: AbortSignal
}

export interface BuiltImage {
  target: Target
  image: string
  archive: string
  sbom: string
  /** Digest of the manifest, for `image@digest` after a push. */
  digest: string
  bytes: number
}

/** A layer with its components of the bill of materials. */
interface Part {
  layer: Layer
  components: Component[]
  env?: Record<string, string>
}

export async function buildImages(input: BuildImagesInput): Promise<BuiltImage[]> {
  const { targets, output, cacheDir, log, signal } = input
  const work = await mkdtemp(join(tmpdir(), 'longhaul-images-'))
  // Below the checkout, where modules find their packages, but not in `dist`, which belongs to the package.
  const dist = join(ROOT, 'out', basename(work))
  try {
    await mkdir(output, { recursive: true })
    log('building')
    await requireCommand({
      what: 'Building Longhaul',
      command: process.execPath,
      args: [join(ROOT, 'scripts/build.mjs'), dist],
      timeoutMs: BUILD_MS,
      signal,
    })
    const base = await ensureBaseArchive({ cacheDir: join(cacheDir, 'images'), log, signal })
    const packages = await runtimePackages(ROOT)
    const npm = await npmBom(ROOT, packages.names)
    const staged = join(work, 'application')
    await stageApplication({ root: ROOT, dist, folder: staged })
    const beside = { root: ROOT, at: HOME, ...packages }
    log('packing what all have')
    const common = await emptyBlobs(join(work, 'common'))
    const shared = [
      ...(await systemParts({ archive: base.path, work, blobs: common })),
      {
        layer: await packFolder({ folder: staged, beside, blobs: common, says: 'Longhaul and its packages' }),
        components: [],
      },
    ]
    const images: BuiltImage[] = []
    for (const target of targets) {
      signal.throwIfAborted()
      log(`${target}: packing`)
      const folder = join(work, target)
      const blobs = await emptyBlobs(folder)
      for (const name of await readdir(common)) await link(join(common, name), join(blobs, name))
      const parts = [
        ...shared,
        ...(target === 'sandbox' ? [await sandboxPart({ base, work, blobs })] : []),
        ...(target === 'trainer' ? [await trainerPart({ ...input, work, blobs })] : []),
      ]
      images.push(await finish({ ...input, target, folder, parts, npm }))
      await rm(folder, { recursive: true })
    }
    return images
  } finally {
    await Promise.all([work, dist].map((folder) => rm(folder, { recursive: true, force: true })))
  }
}

interface FinishInput extends BuildImagesInput {
  target: Target
  folder: string
  parts: Part[]
  npm: Awaited<ReturnType<typeof npmBom>>
}

async function finish({ target, folder, parts, npm, output, repository, tag, log }: FinishInput): Promise<BuiltImage> {
  const image = `${repository}/${target}:${tag}`
  const archive = join(output, `${target}.tar`)
  const env = Object.assign(
    {
      PATH: '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin',
      HOME: `/${WRITABLE}`,
      LONGHAUL_CACHE: `/${WRITABLE}/cache`,
    },
    ...parts.map((part) => part.env ?? {}),
  ) as Record<string, string>
  const labels = {
    'org.opencontainers.image.title': `longhaul ${target}`,
    'org.opencontainers.image.version': npm.metadata.component.version,
    'org.opencontainers.image.licenses': 'MIT',
  }
  const { digest, bytes } = await writeImage(
    folder,
    { name: image, layers: parts.map(({ layer }) => layer), env, labels },
    archive,
  )
  const sbom = join(output, `${target}.cdx.json`)
  const bom = imageBom({ image, digest, npm, others: parts.flatMap(({ components }) => components) })
  await writeFileAtomically(sbom, `${JSON.stringify(bom, null, 2)}\n`)
  log(`${target}: ${image}, ${Math.round(bytes / 1e6)} MB, ${bom.components.length} components, ${digest}`)
  return { target, image, archive, sbom, digest, bytes }
}

interface PartInput {
  work: string
  blobs: string
}

/** Debian, the user of all processes, and Node. */
async function systemParts({ archive, work, blobs }: PartInput & { archive: string }): Promise<Part[]> {
  const debian = await takeArchive({ archive, blobs, says: 'Debian, as the sandbox base image' })
  const components = debianComponents(await readArchived(archive, './var/lib/dpkg/status'))
  const folder = await mkdtemp(join(work, 'system-'))
  await mkdir(join(folder, 'etc'))
  await mkdir(join(folder, WRITABLE), { recursive: true })
  const user = `longhaul:x:${USER}:${USER}:longhaul:/${WRITABLE}:/usr/sbin/nologin\n`
  for (const [name, line] of [
    ['passwd', user],
    ['group', `longhaul:x:${USER}:\n`],
  ] as const) {
    await writeFile(join(folder, 'etc', name), `${await readArchived(archive, `./etc/${name}`)}${line}`)
  }
  await mkdir(join(folder, 'usr/local/bin'), { recursive: true })
  await copyFile(process.execPath, join(folder, 'usr/local/bin/node'))
  const version = process.versions.node
  const node = programComponent({ name: 'node', version, purl: `pkg:generic/node@${version}` })
  return [
    { layer: debian, components },
    {
      layer: await packFolder({ folder, owned: [WRITABLE], blobs, says: `user ${USER}, Node ${version}` }),
      components: [node],
    },
  ]
}

/** The runner and the base image, which a host of sandboxes would otherwise build itself, as root and with a compiler. */
async function sandboxPart({ base, work, blobs }: PartInput & { base: { path: string; name: string } }): Promise<Part> {
  const folder = await mkdtemp(join(work, 'sandbox-'))
  const built = join(folder, HOME, 'infra/built')
  await mkdir(built, { recursive: true })
  await copyFile(base.path, join(built, base.name))
  await writeFile(join(built, await builtRunnerName()), await compileRunner(), { mode: 0o755 })
  return {
    layer: await packFolder({ folder, blobs, says: 'base image of sandboxes, runner' }),
    // The archive contains Debian again, which the bill already lists.
    components: [],
  }
}

async function trainerPart({
  work,
  blobs,
  cacheDir,
  python,
  kubectl,
}: PartInput & Pick<BuildImagesInput, 'cacheDir' | 'python' | 'kubectl'>): Promise<Part> {
  const environment = python ?? (await trainerEnvironment(cacheDir))
  const program = kubectl ?? findProgram('kubectl')
  if (program === null) throw new Error('Expected kubectl, which launches training jobs: --kubectl PATH')
  const folder = await mkdtemp(join(work, 'trainer-'))
  await mkdir(join(folder, 'usr/local/bin'), { recursive: true })
  await copyFile(program, join(folder, 'usr/local/bin/kubectl'))
  const packages = 'lib/python3.11/site-packages'
  if (!(await exists(join(environment, packages)))) throw new Error(`Expected Python 3.11's packages in ${environment}`)
  await mkdir(join(folder, PYTHON, 'bin'), { recursive: true })
  // Debian 12 has the Python version for which the lock file was made.
  for (const name of ['python', 'python3']) await symlink('/usr/bin/python3', join(folder, PYTHON, 'bin', name))
  await writeFile(
    join(folder, PYTHON, 'pyvenv.cfg'),
    'home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11\n',
  )
  await cp(join(environment, packages), join(folder, PYTHON, packages), {
    recursive: true,
    verbatimSymlinks: true,
    filter: (path) => !path.endsWith('__pycache__'),
  })
  const version = await kubectlVersion(program)
  return {
    layer: await packFolder({ folder, blobs, says: `Python packages of the trainer, kubectl ${version}` }),
    components: [
      ...(await pythonComponents(join(folder, PYTHON, packages))),
      programComponent({ name: 'kubectl', version, purl: `pkg:generic/kubectl@${encodeURIComponent(version)}` }),
    ],
    env: {
      LONGHAUL_PYTHON: `/${PYTHON}/bin/python`,
      PYTHONPATH: `/${HOME}/trainer`,
      // The image may be read-only.
      PYTHONDONTWRITEBYTECODE: '1',
    },
  }
}

async function trainerEnvironment(cacheDir: string): Promise<string> {
  const python = await preparedPython(cacheDir)
  if (python === null)
    throw new Error('Expected the trainer’s Python environment: longhaul doctor --role trainer --fix')
  return resolve(python, '../..')
}

async function kubectlVersion(program: string): Promise<string> {
  const { stdout } = await requireCommand({
    what: 'Asking kubectl for its version',
    command: program,
    args: ['version', '--client', '--output', 'json'],
    timeoutMs: 30_000,
  })
  return (JSON.parse(stdout) as { clientVersion: { gitVersion: string } }).clientVersion.gitVersion
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      output: { type: 'string' },
      target: { type: 'string', multiple: true, default: ['worker', 'sandbox'] },
      repository: { type: 'string', default: 'longhaul' },
      tag: { type: 'string' },
      python: { type: 'string' },
      kubectl: { type: 'string' },
    },
  })
  const { output, target, repository, tag, python, kubectl } = values
  if (output === undefined) throw new Error('Expected --output FOLDER')
  const wrong = target.find((name) => !TARGETS.includes(name as Target))
  if (wrong !== undefined) throw new Error(`Expected --target to be one of ${TARGETS.join(', ')}, got ${wrong}`)
  const interrupt = abortOnInterrupt((name) => new Error(`${name}: nothing is left of what was begun`))
  const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as { version: string }
  const built = await buildImages({
    targets: target as Target[],
    output: resolve(output),
    repository,
    tag: tag ?? version,
    cacheDir: stackPaths().cacheDir,
    python,
    kubectl,
    log: (line) => console.error(line),
    signal: interrupt.signal,
  })
  for (const { archive, sbom } of built) console.log(`${archive}\n${sbom}`)
}

if (import.meta.main) {
  try {
    await main()
  } catch (error) {
    console.error(`error: ${error instanceof Error ? error.message : String(error)}`)
    process.exitCode = 1
  }
}
