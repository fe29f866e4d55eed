/**
 * Builds a task's image for the graders in four layers: base, Python, environment and task. Each is named by the hash of its inputs, so
 * that tasks share common layers and nothing is built twice.
 */
import { spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLonghaulError } from '../../contracts/errors.ts'
import type { BuiltTaskImage, HostPython, TaskEnvironment, TaskImageRecord } from '../../contracts/task-images.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { sha256OfParts } from '../../platform/hash.ts'
import { checkRepository } from '../docker/images/check-repository.ts'
import { shellQuote } from '../../platform/run-command.ts'
import { imageDigest, imageExists } from '../docker/images/images.ts'
import type { Engine } from '../docker/engine/engine.ts'
import { packFiles } from '../docker/engine/tar.ts'
import { buildFailure, saysDiskFull } from './build-failure.ts'
import { type BuildLog, openBuildLog } from './build-log.ts'
import { ACTIVATE, CONDA, ENVIRONMENT, environmentScript } from './environment-script.ts'
import { choosePython } from './host-pythons.ts'
import { NOTE, type SharedLayers, makeLayer } from './layer.ts'
import type { PackageSettings } from './package-settings.ts'
import type { Repository } from './repository.ts'
import { makeDirectory } from '../../platform/files.ts'
import { sweepTempFiles, tempName } from '../../platform/temp-files.ts'

/** Increase this by hand when a change of these scripts changes an image's content. */
export const BUILDER = 1

export interface TaskImageBuilder {
  engine: Engine
  /** Tag of the base image. */
  base: string
  pythons: readonly HostPython[]
  settings: PackageSettings
  network: 'bridge' | 'host'
  /** Contains the directory of logs. */
  cacheDir: string
  layers: SharedLayers
  log: (line: string) => void
  signal: AbortSignal
}

export interface BuildTaskImageInput {
  task: Task
  environment: TaskEnvironment
  repository: Repository
  /** Only checks whether the image exists. */
  findOnly: boolean
}

const LABEL = 'longhaul.task-image'

/**
 * @returns null if the image does not exist and is not to be built
 * @throws LonghaulError `Image.BuildFailed` with its stage
 */
export async function buildTaskImage(
  builder: TaskImageBuilder,
  input: BuildTaskImageInput,
): Promise<BuiltTaskImage | null> {
  const { engine, log } = builder
  const { task, environment, repository } = input
  const started = performance.now()
  await repository.requireCommit(task.baseCommit)
  const deviations: string[] = []
  const setupCommit = await usableSetupCommit(input, deviations)
  const python = requirePython(builder, environment)
  const below = await imageDigest({ engine, image: builder.base })
  const pythonTag = `longhaul/task-python:${hashOf(below ?? '', JSON.stringify({ ...python, prefix: python.prefix }), pythonScript(python))}`
  const script = await environmentScript({
    environment: { ...environment, setupCommit },
    repository,
    repo: task.repo,
  })
  const environmentTag = `longhaul/task-environment:${hashOf(pythonTag, script)}`
  const steps = taskScripts(task, environment)
  const tags = await repository.tags(task.baseCommit)
  const tag = `longhaul/task:${hashOf(environmentTag, task.repo, task.repoDir, refsText(tags), ...Object.values(steps))}`

  const known = await readRecord(engine, tag)
  if (known !== null)
    return finish(builder, input, { tag, environmentTag, did: 'found', started, record: known, log: null })

  if (input.findOnly) return null

  const path = join(builder.cacheDir, 'task-images', 'logs', `${task.taskId}-${tag.split(':')[1] ?? ''}.log`)
  const file = await openBuildLog(path, builder.settings.redact)
  try {
    const { taskId } = task
    await builder.layers.make({ tag: pythonTag, taskId }, () => makePython({ builder, python, tag: pythonTag, file }))
    await builder.layers.make({ tag: environmentTag, taskId }, () =>
      makeEnvironment({ builder, tag: environmentTag, below: pythonTag, script, file, what: taskId, log }),
    )
    deviations.push(...(await notesOf(engine, environmentTag)))
    const record: TaskImageRecord = {
      tag,
      builder: BUILDER,
      taskId: task.taskId,
      repo: task.repo,
      baseCommit: task.baseCommit,
      base: builder.base,
      python,
      environment: { source: environment.source, python: environment.python, setupCommit, layer: environmentTag },
      network: builder.network,
      deviations,
    }
    log(`${task.taskId}: building`)
    await makeTask({ builder, input, tags, steps, record, below: environmentTag, file })
    return await finish(builder, input, { tag, environmentTag, did: 'built', started, record, log: path })
  } catch (error) {
    // The file contains the complete output.
    if (isLonghaulError(error) && error.code === 'Image.BuildFailed') error.details['log'] ??= path
    throw error
  } finally {
    await file.close()
  }
}

function hashOf(...parts: string[]): string {
  return sha256OfParts(String(BUILDER), ...parts).slice(0, 24)
}

/** If a mirror lacks the requirement files of a release's commit, those of the base commit are used and recorded as a deviation. */
async function usableSetupCommit({ task, environment, repository }: BuildTaskImageInput, deviations: string[]) {
  const { packages, setupCommit } = environment
  const isRead = packages === 'requirements.txt' || packages === 'environment.yml'
  if (!isRead || (await repository.hasCommit(setupCommit))) return setupCommit
  deviations.push(`${packages} of the base commit: the repository lacks ${setupCommit}`)
  return task.baseCommit
}

function requirePython({ pythons }: TaskImageBuilder, { python: version }: TaskEnvironment): HostPython {
  const python = choosePython(pythons, version)
  if (python !== null) return python
  if (!version.startsWith('3.')) {
    throw buildFailure({
      stage: 'python',
      message: `Expected a version of Python 3, got ${version}: such an image cannot be built here. Name another in python of install_config, or take the publisher's image`,
    })
  }
  const found = [...new Set(pythons.map((one) => `${one.version} (${one.kind})`))].join(', ')
  throw buildFailure({
    stage: 'python',
    message: `Expected Python ${version} on this host, found ${found || 'none'}. Install one: uv python install ${version}, pyenv install ${version} or conda create -n py python=${version}; or name its directory in LONGHAUL_PYTHONS`,
    details: { python: version },
  })
}

interface Finished {
  tag: string
  environmentTag: string
  did: 'built' | 'found'
  started: number
  record: TaskImageRecord
  log: string | null
}

/** Makes the graders' name point to the image of this content, even if it pointed to an older one. */
async function finish(
  { engine }: TaskImageBuilder,
  { task }: BuildTaskImageInput,
  { tag, environmentTag, did, started, record, log }: Finished,
): Promise<BuiltTaskImage> {
  const [repo, version] = splitImage(task.image)
  await engine.docker.getImage(tag).tag({ repo, tag: version })
  const { Size: bytes } = await engine.docker.getImage(tag).inspect()
  const below = await engine.docker
    .getImage(environmentTag)
    .inspect()
    .then(({ Size }) => Size)
    .catch(() => 0)
  return {
    taskId: task.taskId,
    image: task.image,
    tag,
    did,
    bytes,
    ownBytes: Math.max(0, bytes - below),
    seconds: (performance.now() - started) / 1000,
    record,
    log,
  }
}

function splitImage(image: string): [repo: string, tag: string] {
  const [, repo = image, tag = 'latest'] = /^(.*?)(?::([^:/]+))?$/.exec(image) ?? []
  return [repo, tag]
}

/** Reads what an image records about its build; null if the image does not exist or was not built by Longhaul. */
export async function readRecord(engine: Engine, image: string): Promise<TaskImageRecord | null> {
  if (!(await imageExists({ engine, image }))) return null
  const { Config } = await engine.docker.getImage(image).inspect()
  const text = (Config.Labels as Record<string, string> | null)?.[LABEL] ?? ''
  try {
    return JSON.parse(text) as TaskImageRecord
  } catch {
    return null
  }
}

// Python ------------------------------------------------------------------------------------------------------------------------

/** Reproduces `conda activate`, the only part of conda that the harnesses' scripts use. */
const CONDA_SCRIPT = `conda() {
  if [ "\${1-}" != activate ]; then
    echo "conda: this image has an imitation that knows activate, not \${1-}" >&2
    return 2
  fi
  if [ ! -d "${CONDA}/envs/\${2-}" ]; then
    echo "EnvironmentNameNotFound: Could not find conda environment: \${2-}" >&2
    return 1
  fi
  export CONDA_DEFAULT_ENV="$2" CONDA_PREFIX="${CONDA}/envs/$2" CONDA_SHLVL=1
  case ":$PATH:" in
    ":$CONDA_PREFIX/bin:"*) ;;
    *) export PATH="$CONDA_PREFIX/bin:$PATH" ;;
  esac
}
`

const CONDA_FILES: Record<string, string> = {
  [`${CONDA}/etc/profile.d/conda.sh`]: CONDA_SCRIPT,
  [`${CONDA}/bin/activate`]: `. ${CONDA}/etc/profile.d/conda.sh\n`,
  '/root/.bashrc': `source ${CONDA}/etc/profile.d/conda.sh && conda activate testbed\n`,
}

/** The tools that conda's channels install beside a Python of that age. Newer ones refuse old packages, and older ones do not
 *  support the new index. */
const TOOLS: [minor: number, packages: string[]][] = [
  [5, ['pip==20.3.4', 'setuptools==50.3.2', 'wheel==0.37.1']],
  [6, ['pip==21.2.4', 'setuptools==58.0.4', 'wheel==0.37.1']],
  [7, ['pip==22.3.1', 'setuptools==65.6.3', 'wheel==0.38.4']],
  [8, ['pip==24.2', 'setuptools==75.1.0', 'wheel==0.44.0']],
  [Number.POSITIVE_INFINITY, ['pip==25.2', 'setuptools==78.1.1', 'wheel==0.45.1']],
]

function pythonScript({ prefix, version }: HostPython): string {
  const [, minor = 0] = version.split('.').map(Number)
  const tools = TOOLS.find(([newest]) => minor <= newest)?.[1] ?? []
  const program = `${prefix}/bin/python${version.split('.').slice(0, 2).join('.')}`
  return [
    'set -euxo pipefail',
    `${program} -c 'import bz2, ctypes, hashlib, lzma, sqlite3, ssl, venv, zlib, ensurepip'`,
    `${program} -m venv ${ENVIRONMENT}`,
    `${ENVIRONMENT}/bin/python -m pip install -U ${tools.join(' ')}`,
    `${ENVIRONMENT}/bin/python --version`,
  ].join('\n')
}

interface MakePython {
  builder: TaskImageBuilder
  python: HostPython
  tag: string
  file: BuildLog
}

async function makePython({ builder, python, tag, file }: MakePython): Promise<void> {
  const { engine, base, settings, network, signal } = builder
  if (await imageExists({ engine, image: tag })) return
  builder.log(`Python ${python.version} (${python.kind}): building its layer`)
  const files = await condaFiles()
  const isOfImage = python.kind === 'image'
  await makeLayer({
    engine,
    tag,
    below: base,
    settings,
    network,
    signal,
    log: file,
    changes: (notes) => [
      labelChange(NOTES, notes),
      `ENV PATH=${ENVIRONMENT}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`,
    ],
    steps: [
      {
        kind: 'script',
        stage: 'base',
        script: MISSING_PROGRAMS,
        fix: `Expected bash, git and tar in the base image ${base}: install what is missing in it, or build without --base`,
      },
      { kind: 'put', stage: 'python', path: '/', tar: () => files },
      ...(isOfImage ? [] : [putPython(python)]),
      {
        kind: 'script',
        stage: 'python',
        script: pythonScript(python),
        fix: isOfImage
          ? 'The Python of the base image cannot make an environment: install python3-venv in it, or offer a Python of the host (LONGHAUL_PYTHONS)'
          : `The Python in ${python.prefix} does not run in the base image, or the package registry did not answer. uv python install ${python.version} gives one that runs anywhere`,
      },
    ],
  })
}

/** Only the last attempt at applying a patch needs `patch`, so it is optional. */
const MISSING_PROGRAMS = `for program in bash git tar; do
  command -v "$program" >/dev/null || { echo "missing: $program"; missing=1; }
done
command -v patch >/dev/null || echo "${NOTE}the base image has no patch: patches that git refuses are not tried with fuzz"
[ -z "\${missing-}" ]`

function condaFiles(): Promise<Buffer> {
  const directories = [CONDA, `${CONDA}/bin`, `${CONDA}/envs`, `${CONDA}/etc`, `${CONDA}/etc/profile.d`]
  return packFiles([
    ...directories.map((path) => ({ name: `${path.slice(1)}/`, mode: 0o755 })),
    ...Object.entries(CONDA_FILES).map(([path, text]) => ({
      name: path.slice(1),
      body: Buffer.from(text),
      mode: 0o644,
    })),
  ])
}

/** Python is put at the same path as on the host, because an interpreter and its libraries contain their own path. */
function putPython({ prefix }: HostPython) {
  const path = prefix.slice(1)
  const excluded = [
    'site-packages',
    'test',
    'idlelib',
    'lib2to3/tests',
    '__pycache__',
    'config-*/libpython*.a',
    'libpython*.a',
  ]
  return {
    kind: 'put' as const,
    stage: 'python' as const,
    path: '/',
    tar: () =>
      tarOf([
        ...excluded.map((name) => `--exclude=${path}/lib/*/${name}`),
        `--exclude=${path}/share`,
        `--exclude=${path}/pkgs`,
        `--exclude=${path}/envs`,
        '--exclude=__pycache__',
        '--owner=0',
        '--group=0',
        '-C',
        '/',
        '-cf',
        '-',
        path,
      ]),
  }
}

/** The engine limits the same transfer to half of this. */
const TAR_TIMEOUT_MS = 10 * 60_000

function tarOf(args: string[]): NodeJS.ReadableStream {
  const child = spawn('tar', args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: TAR_TIMEOUT_MS,
    killSignal: 'SIGKILL',
  })
  child.on('error', (error) => child.stdout.destroy(error))
  return child.stdout
}

// Environment -------------------------------------------------------------------------------------------------------------------

const NOTES = 'longhaul.task-image.notes'

interface MakeEnvironment {
  builder: TaskImageBuilder
  tag: string
  below: string
  script: string
  file: BuildLog
  what: string
  log: (line: string) => void
}

async function makeEnvironment({ builder, tag, below, script, file, what, log }: MakeEnvironment): Promise<void> {
  const { engine, settings, network, signal } = builder
  if (await imageExists({ engine, image: tag })) return
  log(`${what}: building its environment`)
  const belowNotes = await notesOf(engine, below)
  await makeLayer({
    engine,
    tag,
    below,
    settings,
    network,
    signal,
    log: file,
    changes: (notes) => [labelChange(NOTES, [...belowNotes, ...notes])],
    steps: [
      {
        kind: 'script',
        stage: 'environment',
        script,
        fix: 'The packages of the environment could not be installed: the log says which; pin or leave it out in install_config, or repair the connection to the package registry',
      },
    ],
  })
}

async function notesOf(engine: Engine, image: string): Promise<string[]> {
  const { Config } = await engine.docker.getImage(image).inspect()
  return JSON.parse((Config.Labels as Record<string, string> | null)?.[NOTES] ?? '[]') as string[]
}

/** The engine parses such a line as a Dockerfile, so quotes and variables are escaped. */
function labelChange(label: string, value: unknown): string {
  return `LABEL ${label}=${JSON.stringify(JSON.stringify(value)).replaceAll('$', '\\$')}`
}

// Task --------------------------------------------------------------------------------------------------------------------------

function taskScripts({ repoDir, baseCommit, gradingProfile }: Task, { preInstall, install }: TaskEnvironment) {
  const begin = `set -euo pipefail\n${ACTIVATE}\nset -x\ncd ${repoDir}`
  const isV2 = gradingProfile === 'rebench-v2'
  return {
    source: [
      'set -euxo pipefail',
      `cd ${repoDir}`,
      'git init -q -b main',
      `git update-ref refs/heads/main ${baseCommit}`,
      `git reset -q --hard ${baseCommit}`,
      'git rev-parse HEAD',
    ].join('\n'),
    preInstall: [begin, ...preInstall].join('\n'),
    install: [begin, ...(isV2 ? install.map(tolerated) : install)].join('\n'),
    // An offline installation in an isolated environment finds its build requirements here.
    wheels: [
      begin,
      `mkdir -p ${WHEELS}`,
      `python - > /tmp/build-requires <<'EOF_BUILD'\n${BUILD_REQUIRES}\nEOF_BUILD`,
      `python -m pip download -q -d ${WHEELS} -r /tmp/build-requires || echo "${NOTE}the graders reinstall without a network, and what the installation builds with could not be kept"`,
      'rm -f /tmp/build-requires',
      `printf '[global]\\nfind-links = ${WHEELS}\\n' > /etc/pip.conf`,
    ].join('\n'),
    // Changes by the installation do not count as the agent's work. V2's images are at the base commit itself. With the base commit's
    // date, equal content has an equal commit and the history stays in order.
    commit: isV2
      ? 'true'
      : [
          `set -euxo pipefail\ncd ${repoDir}`,
          'git config --global user.email setup@swebench.config',
          'git config --global user.name SWE-bench',
          `export GIT_COMMITTER_DATE="$(git show -s --format=%cI ${baseCommit})"`,
          'GIT_AUTHOR_DATE="$GIT_COMMITTER_DATE" git commit -q --allow-empty -am SWE-bench',
        ].join('\n'),
    check: [
      begin,
      'git status --short | head -n 20',
      'python --version',
      `test "$(command -v python)" = ${ENVIRONMENT}/bin/python`,
    ].join('\n'),
  }
}

/** V2 runs each command on its own and continues after a failure. */
function tolerated(command: string): string {
  const [first = ''] = command.trim().split('\n')
  const note = `${NOTE}a command of the installation failed, which its harness passes over: ${first.slice(0, 200)}`
  return `( ${command}\n) || echo ${shellQuote(note)}`
}

const WHEELS = '/opt/longhaul/wheels'

/** Lists what pip's front end would install before it builds the repository. It always includes the two packages of the legacy build. */
const BUILD_REQUIRES = `requires = []
try:
    try:
        import tomllib
    except ImportError:
        from pip._vendor import tomli as tomllib
    with open("pyproject.toml", "rb") as file:
        requires = tomllib.load(file).get("build-system", {}).get("requires", [])
except Exception:
    pass
print("\\n".join(dict.fromkeys([*requires, "setuptools", "wheel"])))`

/** Of the names of folders among the temporary files. */
const HISTORY = 'longhaul-history-'

type Tags = Awaited<ReturnType<Repository['tags']>>

/** Git's format of packed references. */
function refsText(tags: Tags): string {
  return tags.map(({ id, ref }) => `${id} ${ref}\n`).join('')
}

interface MakeTask {
  builder: TaskImageBuilder
  input: BuildTaskImageInput
  tags: Tags
  steps: ReturnType<typeof taskScripts>
  record: TaskImageRecord
  below: string
  file: BuildLog
}

async function makeTask({ builder, input, tags, steps, record, below, file }: MakeTask): Promise<void> {
  const { engine, settings, network, signal } = builder
  const { task, environment, repository } = input
  // A killed builder leaves its history, which has up to hundreds of megabytes.
  await sweepTempFiles(tmpdir(), Date.now(), HISTORY).catch(() => undefined)
  const folder = await mkdtemp(join(tmpdir(), `${HISTORY}${tempName()}`)).catch((cause: NodeJS.ErrnoException) => {
    if (saysDiskFull(cause.message)) throw cause
    throw buildFailure({
      stage: 'source',
      message: `Expected a writable directory for temporary files, got ${tmpdir()} (${cause.code ?? cause.message}): name another one in TMPDIR`,
      cause,
    })
  })
  try {
    const objects = join(folder, task.repoDir, '.git/objects/pack')
    await makeDirectory(objects)
    await repository.pack({ commit: task.baseCommit, tags, folder: objects })
    await writeFile(join(folder, task.repoDir, '.git/packed-refs'), refsText(tags))
    await makeLayer({
      engine,
      tag: record.tag,
      below,
      settings,
      network,
      signal,
      log: file,
      changes(notes) {
        record.deviations.push(...notes)
        return [`WORKDIR ${task.repoDir}`, labelChange(LABEL, record)]
      },
      steps: [
        {
          kind: 'put',
          stage: 'source',
          path: '/',
          tar: () => tarOf(['--owner=0', '--group=0', '-C', folder, '-cf', '-', task.repoDir.slice(1)]),
        },
        {
          kind: 'script',
          stage: 'source',
          script: steps.source,
          fix: 'The repository could not be laid out: check the mirror with git fsck',
        },
        ...(environment.preInstall.length === 0
          ? []
          : [
              {
                kind: 'script' as const,
                stage: 'pre-install' as const,
                script: steps.preInstall,
                fix: 'A command before the installation failed: its reason is below; correct pre_install of install_config, or repair the network',
              },
            ]),
        {
          kind: 'script',
          stage: 'install',
          script: steps.install,
          fix: 'The installation of the repository failed: its reason is below; correct install of install_config, pin what it needs in pip_packages, or repair the connection to the package registry',
        },
        {
          kind: 'script',
          stage: 'install',
          script: steps.wheels,
          fix: 'After the installation, its repository or environment cannot be used, or what it builds with could not be kept: the reason is below; correct install of install_config',
        },
        {
          kind: 'script',
          stage: 'check',
          script: steps.commit,
          fix: 'What the installation changed could not be committed: the reason is below; correct install of install_config so that the repository stays',
        },
        {
          kind: 'script',
          stage: 'check',
          script: steps.check,
          fix: 'The environment cannot be used as the harness does: the reason is below; correct install of install_config so that python stays that of the environment',
        },
      ],
    })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
  await requireRepository(engine, task, record.tag)
}

/** Performs the same check as a gate. An image that fails does not keep its name. */
async function requireRepository(engine: Engine, task: Task, tag: string): Promise<void> {
  try {
    await checkRepository({ engine, image: tag, repoDir: task.repoDir, commit: task.baseCommit })
  } catch (error) {
    await engine.docker
      .getImage(tag)
      .remove({ force: true })
      .catch(() => undefined)
    if (!isLonghaulError(error) || error.code !== 'Sandbox.ImageUnsuitable') throw error
    const message = `${error.message}. Correct pre_install and install of install_config: they must leave it as it is`
    throw buildFailure({ stage: 'check', message, cause: error })
  }
}
