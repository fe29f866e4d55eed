import type { ContainerInspectInfo } from 'dockerode'
import { LonghaulError } from '../../../contracts/errors.ts'
import type { OpenSandboxInput, SandboxHandle } from '../../../contracts/sandbox.types.ts'
import { containerName, LABELS } from '../container/labels.ts'
import { type ContainerLabels, containerSpec } from '../container/container-spec.ts'
import { mayStartAgain, startOnce } from '../container/container-state.ts'
import { createOrAdopt } from '../container/create-container.ts'
import { requireImage } from '../images/images.ts'
import { PROXY_PORT } from './relay/relay-pool.ts'
import { attachRunner } from './runner-connection.ts'
import { encodeInit, parseReady, runnerCommand } from './runner-wire.ts'
import { ensureRunnerVolume } from './runner-volume.ts'
import { scrubbedImage } from '../images/scrubbed-image.ts'
import { type SandboxContext, limitsOnHost } from './sandbox-context.ts'

/** An engine under load is slow to start a container. A sandbox that is not ready after this time is given up. */
const READY_TIMEOUT_MS = 60_000

/** Creates, equips and starts a sandbox, or continues where an earlier attempt of the same placement stopped. */
export async function createSandboxContainer(
  context: SandboxContext,
  input: OpenSandboxInput,
  signal: AbortSignal,
): Promise<SandboxHandle> {
  return context.starting.use(async () => {
    signal.throwIfAborted()
    const digest = await requireImage({ engine: context.engine, ...input })
    const name = containerName([input.run, withoutRun(input), input.role, input.placement])
    const spec = containerSpec({
      engine: context.engine,
      name,
      image: await imageForAgent(context, { ...input, digest, signal }),
      command: runnerCommand(...leaseArguments(input.leaseMs)),
      runnerVolume: await ensureRunnerVolume({ engine: context.engine, image: input.image }),
      workingDir: input.repoDir,
      limits: limitsOnHost(context, input.limits),
      cpuset: context.cpus.take(name, input.limits.cpus),
      capabilities: 'restricted',
      stdin: true,
      labels: sandboxLabels(input, context, digest),
    })
    const cpus = Math.min(input.limits.cpus, context.engine.cpus)
    const { tools, repoDir, allowedHosts } = input
    const line = encodeInit({ tools, repoDir, cpus, proxyPort: allowedHosts === undefined ? null : PROXY_PORT })
    const { container, existing } = await createOrAdopt({
      engine: context.engine,
      spec,
      equip: async () => {
        const container = context.engine.docker.getContainer(name)
        context.runners.hold(name, await attachRunner({ container, request: line }))
      },
      mayAdopt: (found) => isOfThisExecution(name, spec.Labels ?? {}, found),
    })
    requireUsable(name, existing)
    if (existing !== null) context.cpus.keep(name, existing.HostConfig.CpusetCpus ?? '')
    if (existing?.State.Running !== true) await startOnce(container)
    const reply = await context.runners.request({ name, line, timeoutMs: READY_TIMEOUT_MS, signal })
    const { startCommit } = parseReady(reply)
    if (allowedHosts !== undefined) await context.relays.open({ name, allowedHosts })
    return {
      name,
      containerId: container.id,
      image: input.image,
      imageDigest: digest,
      hostQueue: context.hostQueue,
      repoDir: input.repoDir,
      startCommit,
      ...(allowedHosts === undefined ? {} : { allowedHosts }),
    }
  }, signal)
}

/** Builds the labels of a sandbox with a runner, in a Docker engine or a cluster. */
export function sandboxLabels(
  input: OpenSandboxInput,
  { hostId, namespaceId, maxLifeMs }: Pick<SandboxContext, 'hostId' | 'namespaceId' | 'maxLifeMs'>,
  imageDigest: string,
): ContainerLabels {
  return {
    run: input.run,
    episode: input.episode,
    role: input.role,
    fence: input.placement,
    leaseMs: input.leaseMs,
    maxLifeMs: input.maxLifeMs ?? maxLifeMs,
    owner: input.owner,
    ownerRun: input.ownerRun,
    namespaceId,
    host: hostId,
    imageDigest,
    request: input.request,
  }
}

/** Returns the image for an agent. Images of real repositories are stripped of their history first. Synthesised repositories have
 *  only one commit, and the grader uses the original image. */
async function imageForAgent(
  { engine, keeper }: SandboxContext,
  input: OpenSandboxInput & { digest: string; signal: AbortSignal },
): Promise<string> {
  return input.scrubHistory === true ? scrubbedImage({ engine, keeper, ...input }) : input.image
}

/**
 * Whether the sandbox that already has the name of a placement was opened by an attempt of the same execution. A placement's number
 * belongs to one execution as long as its record exists. Where records are gone (an older copy of the store, a folder that was deleted)
 * the numbers begin anew, and the sandbox of that name has run turns that this execution knows nothing of.
 * @returns false if it may be removed
 * @throws LonghaulError `Sandbox.Lost` if it may be in use by another stack, whose runs can have the same names; the next placement has
 *   another name
 */
export function isOfThisExecution(
  name: string,
  wanted: Record<string, string>,
  found: Record<string, string>,
): boolean {
  const differs = (label: string): boolean => (wanted[label] ?? '') !== '' && wanted[label] !== found[label]
  if (differs(LABELS.namespaceId)) {
    throw new LonghaulError({
      code: 'Sandbox.Lost',
      message: 'A sandbox of another stack has the name of this placement',
      details: { name },
    })
  }
  return !differs(LABELS.ownerRun)
}

/** Shortens an episode id for a name: the id begins with the run, which the name already contains. */
export function withoutRun({ run, episode }: { run: string; episode: string }): string {
  return episode.startsWith(`${run}/`) ? episode.slice(run.length + 1) : episode
}

/** A running sandbox is adopted, and a created or stopped one is started. A sandbox whose lease has expired is never started again. */
function requireUsable(name: string, existing: ContainerInspectInfo | null): void {
  if (existing === null || existing.State.Running || existing.State.Status === 'created') return
  if (mayStartAgain(existing.State)) return
  throw new LonghaulError({
    code: 'Sandbox.Lost',
    message: 'The sandbox of this placement has already ended',
    details: { name, status: existing.State.Status },
  })
}

/** Splits a lease into rounds of ten seconds. Short leases, which tests use, get three shorter rounds. */
export function leaseArguments(leaseMs: number): [seconds: string, rounds: string] {
  const seconds = Math.max(1, Math.min(10, Math.floor(leaseMs / 3000)))
  return [String(seconds), String(Math.max(1, Math.ceil(leaseMs / 1000 / seconds)))]
}
