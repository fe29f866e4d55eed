import { createWriteStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import type { Container } from 'dockerode'
import { LonghaulError, toLonghaulError } from '../../../contracts/errors.ts'
import { removeContainer } from '../container/create-container.ts'
import { buildNetwork, type Engine } from '../engine/engine.ts'
import { attach, createDemultiplexer } from '../engine/exec-stream.ts'
import type { BaseImageIdentity } from './base-image-rootfs.ts'
import { buildLabels, imageExists, pullImage } from './images.ts'

interface BuildInContainerInput {
  engine: Engine
  identity: BaseImageIdentity
  /** Gzip-compressed tar to write. */
  archive: string
  log: (line: string) => void
  signal: AbortSignal
}

/** Below the life of a build container, after which the reaper of another process would remove it. */
const BUILD_TIMEOUT_MS = 15 * 60_000
/** The capabilities that apt and dpkg need. */
const CAPABILITIES = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'SETFCAP', 'SETGID', 'SETUID', 'SYS_CHROOT']
const PROXIES = ['http_proxy', 'https_proxy', 'all_proxy', 'no_proxy'].flatMap((name) => [name, name.toUpperCase()])
const TAIL_LINES = 15

/**
 * Makes the same file system as `buildRootFilesystem` without root and debootstrap: installs the packages into a container of Debian's
 * own image, which the engine has or pulls, and packs that container's files.
 * @throws LonghaulError `Stack.SetupFailed` with what helps
 */
export async function buildInContainer(input: BuildInContainerInput): Promise<void> {
  const { engine, identity, log, signal } = input
  const image = debianOf(identity)
  await ensureDebian(input, image)
  const name = `lh-build-${identity.archive}`
  const ended = AbortSignal.any([signal, AbortSignal.timeout(BUILD_TIMEOUT_MS)])
  // The caller holds the lock of the archive, so a container of this name was left by a killed build.
  await removeContainer({ engine, name })
  const stop = (): void => void removeContainer({ engine, name }).catch(() => undefined)
  ended.addEventListener('abort', stop, { once: true })
  try {
    const container = await engine.docker.createContainer({
      name,
      Image: image,
      Entrypoint: [],
      Cmd: ['/bin/sh', '-euc', scriptOf(identity)],
      User: '0:0',
      WorkingDir: '/',
      Labels: buildLabels(),
      Env: ['LC_ALL=C', 'DEBIAN_FRONTEND=noninteractive', ...proxySettings()],
      AttachStdout: true,
      AttachStderr: true,
      HostConfig: {
        NetworkMode: await buildNetwork(engine),
        CapDrop: ['ALL'],
        CapAdd: CAPABILITIES,
        SecurityOpt: ['no-new-privileges:true'],
        LogConfig: { Type: 'none', Config: {} },
      },
    })
    log(`base image: installing ${identity.recipe.packages.join(', ')} into ${image}`)
    await runToEnd(container)
    log('base image: packing')
    await pipeline(await container.export(), createGzip({ level: 1 }), createWriteStream(input.archive), {
      signal: ended,
    })
  } catch (error) {
    signal.throwIfAborted()
    throw isFailure(error) ? error : failed(`It ended early: ${toLonghaulError(error).message}`, input, error)
  } finally {
    ended.removeEventListener('abort', stop)
    await removeContainer({ engine, name })
  }

  async function runToEnd(container: Container): Promise<void> {
    const tail: string[] = []
    const output = await attach(container)
    output.on('error', () => undefined)
    let part = ''
    const demultiplex = createDemultiplexer((_kind, payload) => {
      const lines = (part + payload.toString()).split('\n')
      part = lines.pop() ?? ''
      tail.push(...lines)
      tail.splice(0, tail.length - TAIL_LINES)
    })
    output.on('data', demultiplex)
    await container.start()
    const { StatusCode: code } = (await container.wait()) as { StatusCode: number }
    output.destroy()
    signal.throwIfAborted()
    if (ended.aborted) throw failed(`The installation took longer than ${BUILD_TIMEOUT_MS / 60_000} minutes`, input)
    if (code !== 0) throw failed(`The installation ended with ${code}:\n${[...tail, part].join('\n').trim()}`, input)
  }
}

function debianOf({ recipe }: BaseImageIdentity): string {
  return `debian:${recipe.suite}-slim`
}

async function ensureDebian(input: BuildInContainerInput, image: string): Promise<void> {
  const { engine, log, signal } = input
  if (await imageExists({ engine, image })) return
  await pullImage({ engine, image, log: (line) => log(`base image: ${line}`), signal }).catch((error: unknown) => {
    signal.throwIfAborted()
    throw failed(`The image ${image} could not be pulled: ${toLonghaulError(error).message}`, input, error)
  })
}

function scriptOf({ recipe }: BaseImageIdentity): string {
  return `
apt-get update -q
apt-get install -q -y --no-install-recommends ${recipe.packages.join(' ')}
rm -rf ${recipe.remove.map((glob) => `/${glob}`).join(' ')}
mkdir -p ${recipe.directories.map((directory) => `/${directory}`).join(' ')}
`
}

/** Those of the user: the container's packages come the way that the host's do. */
function proxySettings(env: NodeJS.ProcessEnv = process.env): string[] {
  return PROXIES.flatMap((name) => (env[name] === undefined ? [] : [`${name}=${env[name]}`]))
}

function isFailure(error: unknown): boolean {
  return toLonghaulError(error).code === 'Stack.SetupFailed'
}

function failed(
  reason: string,
  { identity, archive }: Pick<BuildInContainerInput, 'identity' | 'archive'>,
  cause?: unknown,
): LonghaulError {
  const image = debianOf(identity)
  return new LonghaulError({
    code: 'Stack.SetupFailed',
    message: `The base image of sandboxes could not be made. ${reason}
It is made once for each machine. One of these helps:
  - give the engine a way to Debian's image and packages, or its image by hand:  docker pull ${image}
  - on Debian or Ubuntu, run this once as root, which needs no registry
  - copy the file from a user or a machine that has it:                        ${archive.replace(/\.new$/, '')}`,
    cause,
  })
}
