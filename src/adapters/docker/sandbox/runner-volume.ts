import { execFile } from 'node:child_process'
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises'
import { arch, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Readable } from 'node:stream'

import type { Container } from 'dockerode'

import { LonghaulError } from '../../../contracts/errors.ts'
import { buildLabels } from '../images/images.ts'
import { ignoreGone, isStatus } from '../engine/engine-errors.ts'
import type { Engine } from '../engine/engine.ts'
import { runnerScripts } from './runner-files.ts'
import { RUNNER_FOLDER } from './runner-wire.ts'
import { packFiles } from '../engine/tar.ts'
import { sha256Hex } from '../../../platform/hash.ts'

/** The path works from a checkout (`src/`) and from the package (`dist/`), because `infra/` lies beside both. */
const SOURCES = new URL('../../../../infra/runner/', import.meta.url)
/** Worker images ship the compiled program here, so that a worker of sandboxes needs no compiler. */
const SHIPPED = new URL('../../../../infra/built/', import.meta.url)
/** Written last: a volume without this file was only partly filled. */
const COMPLETE = 'complete'
/**
 * Used instead of the project's label. The reaper removes resources with the project's label together with their owner, and this volume
 * has no owner.
 * @internal exported for the audit of chaos runs, which tells these volumes from others
 */
export const RUNNER_LABEL = 'longhaul.runner'
const COMPILERS = ['cc', 'gcc', 'clang']
const FLAGS = ['-std=gnu17', '-O2', '-Wall', '-static', '-s']

const run = promisify(execFile)
const known = new WeakMap<Engine['docker'], Promise<string>>()
let program: Promise<Buffer> | null = null

export interface EnsureRunnerVolumeInput {
  engine: Engine
  /** Any image that the engine has; none of its programs run. */
  image: string
}

/** Ensures the engine's volume with the runner and its scripts, named by the hash of its content. Sandboxes mount it read-only, so
 *  the first process of a sandbox is never the agent's, even after a restart. The first caller fills the volume, once per engine.
 *  @returns its name
 *  @throws LonghaulError `Stack.SetupFailed` without a C compiler */
export async function ensureRunnerVolume(input: EnsureRunnerVolumeInput): Promise<string> {
  const { docker } = input.engine
  const earlier = known.get(docker)
  if (earlier !== undefined) return earlier
  const volume = ensure(input)
  known.set(docker, volume)
  volume.catch(() => known.delete(docker))
  return volume
}

async function ensure({ engine, image }: EnsureRunnerVolumeInput): Promise<string> {
  const { name, scripts } = await runnerParts()
  await engine.docker.createVolume({ Name: name, Labels: { [RUNNER_LABEL]: 'true' } })
  const container = await engine.docker.createContainer({
    Image: image,
    Entrypoint: [],
    Cmd: [`${RUNNER_FOLDER}/runner`],
    NetworkDisabled: true,
    Labels: buildLabels(),
    HostConfig: {
      NetworkMode: 'none',
      Mounts: [{ Type: 'volume', Source: name, Target: RUNNER_FOLDER, ReadOnly: false, VolumeOptions: NO_COPY }],
    },
  })
  try {
    if (await isComplete(container)) return name
    const program = await runnerProgram()
    const files = [
      ...Object.entries(scripts).map(([script, text]) => ({ name: script, body: Buffer.from(text), mode: 0o444 })),
      { name: 'runner', body: program, mode: 0o555 },
      { name: COMPLETE, body: Buffer.from('\n'), mode: 0o444 },
    ]
    await container.putArchive(await packFiles(files), { path: RUNNER_FOLDER })
    return name
  } finally {
    // Removes no volumes, because the one just filled must stay.
    await container.remove({ force: true }).catch(ignoreGone)
  }
}

export interface RunnerParts {
  /** Contains the hash of the content. */
  name: string
  /** Text by file name. The compiled program is stored beside them as `runner`. */
  scripts: Record<string, string>
}

export async function runnerParts(): Promise<RunnerParts> {
  const [sources, scripts] = await Promise.all([readSources(), runnerScripts()])
  return { name: `longhaul-runner-${hashOf({ ...sources, ...scripts })}`, scripts }
}

/** Without this flag the engine would copy into the volume what the image has at the mount path. */
const NO_COPY = { NoCopy: true, Labels: {}, DriverConfig: { Name: '', Options: {} } }

async function isComplete(container: Container): Promise<boolean> {
  try {
    const answer = await container.infoArchive({ path: `${RUNNER_FOLDER}/${COMPLETE}` })
    // The body is empty, but an unread body keeps the process alive.
    ;(answer as unknown as Readable).resume()
    return true
  } catch (error) {
    if (isStatus(error, 404)) return false
    throw error
  }
}

async function readSources(): Promise<Record<string, string>> {
  const names = (await readdir(SOURCES)).filter((name) => /\.[ch]$/.test(name)).toSorted()
  const texts = await Promise.all(names.map(async (name) => [name, await readFile(new URL(name, SOURCES), 'utf8')]))
  return Object.fromEntries(texts) as Record<string, string>
}

function hashOf(files: Record<string, string>): string {
  return sha256Hex(JSON.stringify([arch(), FLAGS, files])).slice(0, 12)
}

/** Returns the file name of the program built from these sources for this machine's architecture. */
export async function builtRunnerName(): Promise<string> {
  return `runner-${hashOf(await readSources())}`
}

/** The shipped program, or one that is compiled once per process.
 *  @throws LonghaulError `Stack.SetupFailed` without a C compiler */
export function runnerProgram(): Promise<Buffer> {
  if (program !== null) return program
  const made = builtRunnerName()
    .then((name) => readFile(new URL(name, SHIPPED)))
    .catch(compileRunner)
  program = made
  made.catch(() => (program = null))
  return made
}

/** Compiles one static program, because images have other C libraries or none.
 *  @throws LonghaulError `Stack.SetupFailed` */
export async function compileRunner(): Promise<Buffer> {
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-runner-'))
  try {
    const names = Object.keys(await readSources()).filter((name) => name.endsWith('.c'))
    const output = join(folder, 'runner')
    const files = names.map((name) => fileURLToPath(new URL(name, SOURCES)))
    for (const compiler of COMPILERS) {
      try {
        await run(compiler, [...FLAGS, '-o', output, ...files], { timeout: 120_000 })
        return await readFile(output)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw notCompiled(compiler, error)
      }
    }
    throw new LonghaulError({
      code: 'Stack.SetupFailed',
      message: 'The sandbox runner must be built, and no C compiler was found: apt-get install gcc libc6-dev',
      details: { tried: COMPILERS.join(', ') },
    })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

function notCompiled(compiler: string, cause: unknown): LonghaulError {
  const said = (cause as { stderr?: string }).stderr ?? ''
  return new LonghaulError({
    code: 'Stack.SetupFailed',
    message: 'The sandbox runner could not be built; a static C library is needed: apt-get install gcc libc6-dev',
    details: { compiler, said: said.slice(0, 500) },
    cause,
  })
}
