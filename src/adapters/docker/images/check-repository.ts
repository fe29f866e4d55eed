import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'

import type { Container } from 'dockerode'

import { LonghaulError } from '../../../contracts/errors.ts'
import { readArchivedFile } from './archived-file.ts'
import { buildContainerSpec } from './images.ts'
import { isStatus } from '../engine/engine-errors.ts'
import type { Engine } from '../engine/engine.ts'
import { removeContainer } from '../container/create-container.ts'
import { createSlots } from '../../../platform/limiter.ts'
import { packFiles } from '../engine/tar.ts'

export interface CheckRepositoryInput {
  engine: Engine
  image: string
  repoDir: string
  /** The commit that the repository must have checked out. */
  commit: string
}

const HOME = '/.lh-check'
/** git reads only a few objects; the rest is slack for a loaded machine. */
const TIMEOUT_MS = 2 * 60_000
const MEMORY_BYTES = 1024 ** 3
/** Limits the checks of a gate that starts many tasks at once. Gradings are admitted separately. */
const slots = createSlots(2)

/**
 * Checks that an image's repository is at the task's commit, in a container that runs none of the task's code.
 * @returns HEAD of the repository
 * @throws LonghaulError `Sandbox.ImageUnsuitable` with what was found
 */
export function checkRepository(input: CheckRepositoryInput): Promise<string> {
  return slots.use(() => check(input))
}

async function check(input: CheckRepositoryInput): Promise<string> {
  const { engine, image, repoDir, commit } = input
  const name = `lh-check-${randomUUID().slice(0, 13)}`
  const script = await readFile(new URL('../sandbox/runner/check-repository.sh', import.meta.url))
  const container = await createChecker(input, name)
  try {
    const files = [
      { name: `${HOME.slice(1)}/`, mode: 0o700 },
      { name: `${HOME.slice(1)}/check.sh`, body: script, mode: 0o700 },
    ]
    await container.putArchive(await packFiles(files), { path: '/' })
    await startChecker(container, input)
    const deadline = AbortSignal.timeout(TIMEOUT_MS)
    const { StatusCode: code } = (await container.wait({ abortSignal: deadline })) as { StatusCode: number }
    const head = await readHead(container)
    if (code === 0) return head
    throw wrongRepository({ image, repoDir, commit, head, exitCode: code })
  } finally {
    await removeContainer({ engine, name })
  }
}

/** The engine refuses to start a container whose program does not exist, which is the image's fault and not the engine's. */
async function startChecker(container: Container, { image, repoDir }: CheckRepositoryInput): Promise<void> {
  try {
    await container.start()
  } catch (cause) {
    if (!isStatus(cause, 400) && !isStatus(cause, 404)) throw cause
    throw new LonghaulError({
      code: 'Sandbox.ImageUnsuitable',
      message: 'A container of the image could not be started: it needs /bin/sh and git',
      details: { image, repository: repoDir, reason: cause instanceof Error ? cause.message.slice(0, 200) : '' },
      cause,
    })
  }
}

interface WrongRepository {
  image: string
  repoDir: string
  commit: string
  /** As found; empty if there is none. */
  head: string
  /** The exit code of `check-repository.sh`. */
  exitCode: number
}

export function wrongRepository({ image, repoDir, commit, head, exitCode }: WrongRepository): LonghaulError {
  return new LonghaulError({
    code: 'Sandbox.ImageUnsuitable',
    message: explain(exitCode),
    details: { image, repository: repoDir, wanted: commit, found: head === '' ? 'none' : head, exitCode },
  })
}

function explain(code: number): string {
  switch (code) {
    case 3:
      return 'The image has no repository of its own at the task’s path'
    case 5:
      return 'The repository in the image does not have the task’s commit'
    case 6:
      return 'The repository in the image is at another commit than the task’s'
    default:
      return 'The repository in the image could not be read'
  }
}

function createChecker({ engine, image, repoDir, commit }: CheckRepositoryInput, name: string): Promise<Container> {
  const script = `/bin/sh ${HOME}/check.sh "$0" "$1" >${HOME}/head 2>${HOME}/errors`
  return engine.docker.createContainer(
    buildContainerSpec({
      name,
      image,
      command: ['/bin/sh', '-c', script, repoDir, commit],
      // By number, because an image without accounts cannot resolve the name root.
      user: '0:0',
      capabilities: ['DAC_OVERRIDE'],
      processes: 64,
      memoryBytes: MEMORY_BYTES,
    }),
  )
}

async function readHead(container: Container): Promise<string> {
  const stream = (await container.getArchive({ path: `${HOME}/head` })) as AsyncIterable<Uint8Array>
  const file = await readArchivedFile({ stream, name: 'head', maxBytes: 256 })
  return file.kind === 'file' ? file.bytes.toString().trim() : ''
}
