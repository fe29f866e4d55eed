import { hostname } from 'node:os'
import { synthesizeTask } from '../../src/adapters/datasets/synthetic/synthesize.ts'
import { ensureBaseImage } from '../../src/adapters/docker/images/base-image.ts'
import { connectEngine } from '../../src/adapters/docker/engine/engine.ts'
import { buildTaskImage } from '../../src/adapters/docker/images/images.ts'
import { resetRepository } from './reset-repository.ts'
import { createDockerSandboxHost, type DockerSandboxHost } from '../../src/adapters/docker/sandbox/sandbox-host.ts'
import type { SandboxHandle, ScaffoldProfile } from '../../src/contracts/sandbox.types.ts'

/** Long-lived sandboxes that play one task after another: making a container costs more than an episode in it. */
export interface Lanes {
  host: DockerSandboxHost
  sandboxes: SandboxHandle[]
  /** Base image of task images. */
  base: string
  /** Puts another repository into a sandbox and forgets everything of the last one. */
  load(sandbox: SandboxHandle, repoTar: Uint8Array, signal: AbortSignal): Promise<SandboxHandle>
  close(): Promise<void>
}

export interface OpenLanesInput {
  count: number
  profile: ScaffoldProfile
  cacheDir: string
  log(line: string): void
  signal: AbortSignal
}

const REPO_DIR = '/testbed'
const IMAGE = 'longhaul/demonstrations:empty'
const LEASE_MS = 30 * 60_000

export async function openLanes({ count, profile, cacheDir, log, signal }: OpenLanesInput): Promise<Lanes> {
  const engine = await connectEngine()
  const base = await ensureBaseImage({ engine, cacheDir, log, signal })
  const first = synthesizeTask({ family: 'one-wrong-line', seed: 0, split: 'train', index: 0 })
  await buildTaskImage({ engine, base: base.tag, tag: IMAGE, repoTar: await first.repoTar(), labels: {} })
  const host = createDockerSandboxHost({ engine, hostId: hostname(), hostQueue: 'demonstrations' })
  const run = `demonstrations-${process.pid}`
  const open = (_: unknown, lane: number): Promise<SandboxHandle> =>
    host.open(
      {
        run,
        episode: `${run}/lane-${lane}`,
        role: 'agent',
        placement: 1,
        image: IMAGE,
        repoDir: REPO_DIR,
        tools: profile.tools,
        limits: { cpus: 1, memoryMiB: 512, pids: 128 },
        owner: run,
        leaseMs: LEASE_MS,
      },
      signal,
    )
  const sandboxes = await Promise.all(Array.from({ length: count }, open))
  return {
    host,
    sandboxes,
    base: base.tag,
    load: (sandbox, repoTar, until) => resetRepository({ host, sandbox, repoTar, signal: until }),
    close: async () => {
      await Promise.all(sandboxes.map((sandbox) => host.close(sandbox)))
      host.dispose()
    },
  }
}
