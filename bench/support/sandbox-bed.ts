import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

import type { Container } from 'dockerode'

import { ensureBaseImage } from '../../src/adapters/docker/images/base-image.ts'
import type { Engine } from '../../src/adapters/docker/engine/engine.ts'
import { ignoreGone } from '../../src/adapters/docker/engine/engine-errors.ts'
import { buildTaskImage } from '../../src/adapters/docker/images/images.ts'
import { listSandboxes } from '../../src/adapters/docker/container/list-sandboxes.ts'
import { removeContainer } from '../../src/adapters/docker/container/create-container.ts'
import { type DockerSandboxHost, createDockerSandboxHost } from '../../src/adapters/docker/sandbox/sandbox-host.ts'
import type { SandboxHandle } from '../../src/contracts/sandbox.types.ts'
import { findEngine } from './find-engine.ts'
import { repositoryFiles } from './sandbox-commands.ts'

/** An engine, one task image, and sandboxes of it. */
export interface SandboxBed {
  engine: Engine
  host: DockerSandboxHost
  image: string
  open(): Promise<SandboxHandle>
  /** Creates a container with a sandbox's specification, but without anything of Longhaul in it. */
  createBare(): Promise<Container>
  close(): Promise<void>
}

/** Uses the engine that `findEngine` finds. */
export async function makeBed(): Promise<SandboxBed> {
  const { engine, stop } = await findEngine('bench-sandbox')
  const cache =
    process.env['LONGHAUL_CACHE'] ?? join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'longhaul')
  const base = await ensureBaseImage({ engine, cacheDir: join(cache, 'images'), log: console.error })
  const run = `bench-${randomBytes(4).toString('hex')}`
  const image = `longhaul-bench/sandbox:${run}`
  await buildTaskImage({ engine, base: base.tag, tag: image, repoTar: repositoryTar(repositoryFiles()), labels: {} })
  const host = createDockerSandboxHost({ engine, hostId: 'bench', hostQueue: 'sandbox.bench' })
  let placement = 0
  const open = (): Promise<SandboxHandle> => {
    placement += 1
    const input = {
      run,
      episode: `${run}/task/00`,
      role: 'agent' as const,
      placement,
      image,
      repoDir: '/testbed',
      tools: { windowLines: 100, windowOverlap: 2, pathForm: 'absolute' as const },
      limits: { cpus: 2, memoryMiB: 512, pids: 256 },
      owner: 'bench',
      leaseMs: 600_000,
    }
    return host.open(input, new AbortController().signal)
  }
  // The bare container copies what the engine actually stores for a sandbox.
  const model = await open()
  const { Config: config, HostConfig: hostConfig } = await engine.docker.getContainer(model.name).inspect()
  await host.close(model)
  return {
    engine,
    host,
    image,
    open,
    createBare: () =>
      engine.docker.createContainer({
        Image: image,
        Entrypoint: [],
        Cmd: ['sleep', '3600'],
        WorkingDir: '/testbed',
        User: config.User,
        NetworkDisabled: true,
        Labels: {},
        HostConfig: hostConfig,
      }),
    async close() {
      host.dispose()
      for (const { name } of await listSandboxes({ engine, run })) await removeContainer({ engine, name })
      for (const { Id: id } of await engine.docker.listContainers({ all: true, filters: { ancestor: [image] } })) {
        await engine.docker.getContainer(id).remove({ force: true, v: true }).catch(ignoreGone)
      }
      await engine.docker.getImage(image).remove({ force: true }).catch(ignoreGone)
      await stop()
    },
  }
}

function repositoryTar(files: Record<string, string>): Buffer {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-bench-'))
  try {
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true })
      writeFileSync(join(folder, name), content)
    }
    const script = 'git init -q -b main . && git add -A && git -c user.name=b -c user.email=b@b commit -q -m start'
    execFileSync('sh', ['-c', script], { cwd: folder })
    return execFileSync('tar', ['--owner=0', '--group=0', '-cf', '-', '.'], { cwd: folder, maxBuffer: 1 << 28 })
  } finally {
    rmSync(folder, { recursive: true })
  }
}
