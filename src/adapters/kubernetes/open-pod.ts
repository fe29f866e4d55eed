import { readFile } from 'node:fs/promises'
import { LonghaulError } from '../../contracts/errors.ts'
import type { OpenSandboxInput, SandboxHandle } from '../../contracts/sandbox.types.ts'
import { LABELS } from '../docker/container/labels.ts'
import { historyKept } from '../docker/images/scrubbed-image.ts'
import { isOfThisExecution, sandboxLabels, withoutRun } from '../docker/sandbox/open-sandbox.ts'
import { PROXY_PORT } from '../docker/sandbox/relay/relay-pool.ts'
import { encodeInit, parseReady } from '../docker/sandbox/runner-wire.ts'
import type { Cluster } from './cluster.ts'
import { deletePod } from './list-pods.ts'
import { readPod, runScriptInPod } from './pod-access.ts'
import { type Pod, podDeviations, podName, podSpec } from './pod-spec.ts'
import { isTakenAway } from './pod-state.ts'
import { ensureNetworkPolicy, ensureRunnerMap } from './runner-map.ts'
import { createPod, deviating, lost, type PodContext, requireDigest, untilRunning } from './start-pod.ts'

/** A runner that does not answer within this time is given up. */
const READY_MS = 60_000
/** Repacking a repository of gigabytes takes minutes on a slow disk. */
export const SCRUB_MS = 9 * 60_000

/** Creates and starts a sandbox as a pod, or continues where an earlier attempt of the same placement stopped. */
export async function openPod(
  context: PodContext,
  input: OpenSandboxInput,
  signal: AbortSignal,
): Promise<SandboxHandle> {
  const { cluster } = context
  return context.starting.use(async () => {
    signal.throwIfAborted()
    await ensureNetworkPolicy(cluster)
    const asked = podSpec({
      input,
      name: podName([input.run, withoutRun(input), input.role, input.placement]),
      serves: 'pod',
      leaseMs: input.leaseMs,
      runnerMap: await ensureRunnerMap(cluster),
      seccompProfile: context.seccompProfile,
      runtime: context.runtime,
      labels: sandboxLabels(input, context, input.expectedDigest ?? ''),
    })
    const { name } = asked.metadata
    const { pod: created, isNew } = await createOrAdopt(cluster, asked)
    try {
      const pod = await untilRunning(context, created, input.image, signal)
      const imageDigest = requireDigest(pod, input)
      const startCommit = await prepare(context, name, input, isNew, signal)
      if (input.allowedHosts !== undefined) await context.relays.open({ name, allowedHosts: input.allowedHosts })
      return {
        name,
        containerId: pod.metadata.uid ?? '',
        image: input.image,
        imageDigest,
        hostQueue: context.hostQueue,
        repoDir: input.repoDir,
        startCommit,
        ...(input.allowedHosts === undefined ? {} : { allowedHosts: input.allowedHosts }),
      }
    } catch (error) {
      // A cancelled attempt leaves its pod to the next attempt, which adopts it. After any other failure the pod can never be used.
      if (isNew && !signal.aborted) await deletePod(cluster, name).catch(() => undefined)
      throw error
    }
  }, signal)
}

const IDENTITY = [LABELS.project, LABELS.run, LABELS.episode, LABELS.role, LABELS.fence]

/** @throws LonghaulError `Sandbox.JournalConflict` if the name belongs to something else; `Sandbox.Unsafe` if the cluster created a
 *  deviating pod; `Sandbox.Lost` if the pod of this placement has ended */
async function createOrAdopt(cluster: Cluster, asked: Pod): Promise<{ pod: Pod; isNew: boolean }> {
  const { name } = asked.metadata
  const made = await createPod(cluster, asked)
  const pod = made ?? (await readPod(cluster, name))
  if (pod === null) throw lost(name, 'The sandbox of this placement is being deleted')
  const [wanted, found] = [asked.metadata.annotations ?? {}, pod.metadata.annotations ?? {}]
  const differing = IDENTITY.find((label) => wanted[label] !== found[label])
  if (differing !== undefined) {
    throw new LonghaulError({
      code: 'Sandbox.JournalConflict',
      message: 'A pod of this name belongs to something else',
      details: { name, label: differing, wanted: wanted[differing] ?? null, found: found[differing] ?? null },
    })
  }
  if (isTakenAway(pod)) throw lost(name, 'The sandbox of this placement is being deleted')
  if (!isOfThisExecution(name, wanted, found)) {
    await deletePod(cluster, name)
    throw lost(
      name,
      'An earlier execution of the episode left a sandbox under the name of this placement; it is being deleted',
    )
  }
  const deviations = podDeviations(asked, pod)
  if (deviations.length === 0) return { pod, isNew: made !== null }
  await deletePod(cluster, name)
  throw deviating(made === null ? 'Sandbox.Lost' : 'Sandbox.Unsafe', name, deviations)
}

/** @returns the commit that patches are computed against */
async function prepare(
  { cluster, runners }: PodContext,
  name: string,
  input: OpenSandboxInput,
  isNew: boolean,
  signal: AbortSignal,
): Promise<string> {
  const { tools, repoDir, limits, allowedHosts } = input
  const ask = { name, timeoutMs: READY_MS, signal }
  if (!isNew) {
    // An earlier attempt has prepared the pod, so an agent may have run in it and the image's programs are no longer trusted.
    const ready = await runners
      .request({ ...ask, line: encodeInit(null) })
      .then(parseReady)
      .catch(ignoreUnprepared)
    if (ready !== null) return ready.startCommit
  }
  if (input.scrubHistory === true) await scrub(cluster, name, input)
  const proxyPort = allowedHosts === undefined ? null : PROXY_PORT
  const line = encodeInit({ tools, repoDir, cpus: limits.cpus, proxyPort })
  return parseReady(await runners.request({ ...ask, line })).startCommit
}

function ignoreUnprepared(error: unknown): null {
  if (error instanceof LonghaulError && error.code === 'Sandbox.Ended' && error.details['answer'] === 'unprepared')
    return null
  throw error
}

/** Removes the history from the pod's own repository, because a cluster has no place for an image that is scrubbed once for all. It
 *  runs in the jail, because a late second attempt may coincide with the agent of the first. */
export async function scrub(
  cluster: Cluster,
  name: string,
  { image, repoDir }: Pick<OpenSandboxInput, 'image' | 'repoDir'>,
): Promise<void> {
  const script = await readFile(new URL('../docker/sandbox/runner/scrub.sh', import.meta.url), 'utf8')
  const { exitCode, said } = await runScriptInPod(cluster, name, [script, repoDir], SCRUB_MS)
  if (exitCode === 0) return
  throw historyKept({ image, repoDir, exitCode, reason: said.slice(-300) })
}
