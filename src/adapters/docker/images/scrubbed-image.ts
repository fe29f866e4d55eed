import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'

import type { Container } from 'dockerode'

import { LonghaulError } from '../../../contracts/errors.ts'
import { readArchivedFile } from './archived-file.ts'
import { buildContainerSpec, WITHOUT_BUILD_LABELS } from './images.ts'
import { isStatus } from '../engine/engine-errors.ts'
import type { Engine } from '../engine/engine.ts'
import type { ImageKeeper } from './image-keeper.ts'
import { removeContainer } from '../container/create-container.ts'
import { packFiles } from '../engine/tar.ts'
import { sha256Hex } from '../../../platform/hash.ts'

export interface ScrubbedImageInput {
  engine: Engine
  keeper: ImageKeeper
  /** The image named by the task's row. It stays unchanged, because the grader uses it. */
  image: string
  digest: string
  repoDir: string
  signal: AbortSignal
}

/** Repository name of every image that was derived for agents. */
const REPOSITORY = 'longhaul/scrubbed'
const HOME = '/.lh-scrub'
/** Repacking a repository of gigabytes takes minutes on a slow disk. The reaper spares build containers for the same time. */
const TIMEOUT_MS = 9 * 60_000
const MEMORY_BYTES = 4 * 1024 ** 3

/**
 * Returns the image for agents, which has the same files and the same HEAD but a repository without other history. One process of the
 * machine makes it once per image digest and engine, and concurrent callers wait for it. It is evicted like a task's image, least
 * recently used first, when the disk is full.
 * @throws LonghaulError `Sandbox.ImageUnsuitable` if there is no repository, or if some of its history is left
 */
export async function scrubbedImage(input: ScrubbedImageInput): Promise<string> {
  const script = await readFile(new URL('../sandbox/runner/scrub.sh', import.meta.url))
  const identity = createHash('sha256').update(script).update(`\0${input.digest}\0${input.repoDir}`).digest('hex')
  const tag = `${REPOSITORY}:${identity.slice(0, 24)}`
  await input.keeper.ensure({ image: tag, make: () => makeScrubbed({ ...input, script, tag }), signal: input.signal })
  return tag
}

async function makeScrubbed(input: ScrubbedImageInput & { script: Buffer; tag: string }): Promise<void> {
  const { engine, tag, script } = input
  const name = `lh-scrub-${sha256Hex(tag).slice(0, 16)}`
  // A killed attempt may have left a container with this name.
  await removeContainer({ engine, name })
  const container = await createScrubber(input, name)
  try {
    await container.putArchive(await packFiles([{ name: '.lh-scrub/', mode: 0o700 }, scriptFile(script)]), {
      path: '/',
    })
    await container.start()
    await requireClean(input, container, await exitCode(container))
    await container.commit({
      repo: REPOSITORY,
      tag: tag.slice(REPOSITORY.length + 1),
      pause: false,
      changes: WITHOUT_BUILD_LABELS,
    })
  } finally {
    await removeContainer({ engine, name })
  }
}

function scriptFile(body: Buffer) {
  return { name: '.lh-scrub/scrub.sh', body, mode: 0o700 }
}

/** The script's errors are kept so that they can be read after a failure. A clean image contains nothing of the script. */
const RUN = `/bin/sh ${HOME}/scrub.sh "$0" 2>${HOME}/errors && rm -rf ${HOME}`

async function createScrubber({ engine, image, repoDir }: ScrubbedImageInput, name: string): Promise<Container> {
  try {
    return await engine.docker.createContainer(
      buildContainerSpec({
        name,
        image,
        command: ['/bin/sh', '-c', RUN, repoDir],
        user: 'root',
        capabilities: ['CHOWN', 'DAC_OVERRIDE', 'FOWNER'],
        processes: 256,
        memoryBytes: MEMORY_BYTES,
      }),
    )
  } catch (error) {
    if (!isStatus(error, 404)) throw error
    throw new LonghaulError({
      code: 'Sandbox.ImageMissing',
      message: 'The engine does not have the image',
      details: { image },
      cause: error,
    })
  }
}

/** Ignores the caller's signal, because other callers may wait for the same image. */
async function exitCode(container: Container): Promise<number> {
  const deadline = AbortSignal.timeout(TIMEOUT_MS)
  const { StatusCode: code } = (await container.wait({ abortSignal: deadline })) as { StatusCode: number }
  return code
}

async function requireClean({ image, repoDir }: ScrubbedImageInput, container: Container, code: number): Promise<void> {
  if (code === 0) return
  throw historyKept({ image, repoDir, exitCode: code, reason: await readErrors(container) })
}

interface HistoryKept {
  image: string
  repoDir: string
  /** The exit code of `scrub.sh`; null if the engine did not report it. */
  exitCode: number | null
  reason: string
}

export function historyKept({ image, repoDir, exitCode, reason }: HistoryKept): LonghaulError {
  return new LonghaulError({
    code: 'Sandbox.ImageUnsuitable',
    message:
      exitCode === 3
        ? 'The image has no repository of its own at the task’s path'
        : 'The history of the repository in the image could not be removed',
    details: { image, repository: repoDir, exitCode, reason },
  })
}

async function readErrors(container: Container): Promise<string> {
  const stream = (await container.getArchive({ path: `${HOME}/errors` })) as AsyncIterable<Uint8Array>
  const file = await readArchivedFile({ stream, name: 'errors', maxBytes: 4096 })
  return file.kind === 'file' ? file.bytes.toString().trim().slice(-300) : ''
}
