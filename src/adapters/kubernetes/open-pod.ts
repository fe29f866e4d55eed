import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { LonghaulError } from '../../contracts/errors.ts'
import type { OpenSandboxInput, SandboxHandle } from '../../contracts/sandbox.types.ts'
import { LABELS } from '../docker/container/labels.ts'
import { historyKept } from '../docker/images/scrubbed-image.ts'
import { sandboxLabels, withoutRun } from '../docker/sandbox/open-sandbox.ts'
import { PROXY_PORT, type RelayPool } from '../docker/sandbox/relay/relay-pool.ts'
import type { RunnerPool } from '../docker/sandbox/runner-pool.ts'
import { RUNNER_FOLDER, encodeInit, parseReady } from '../docker/sandbox/runner-wire.ts'
import type { Slots } from '../../platform/limiter.ts'
import { ClusterRefusal } from './cluster-errors.ts'
import type { Cluster } from './cluster.ts'
import { deletePod } from './list-pods.ts'
import { readPod, runInPod } from './pod-access.ts'
import { type Pod, podDeviations, podName, podSpec } from './pod-spec.ts'
import { blockOf, endOf, isRunning, isTakenAway, statusOfSandbox } from './pod-state.ts'
import { ensureNetworkPolicy, ensureRunnerMap } from './runner-map.ts'

/** The state that all operations of one namespace share. */
export interface PodContext {
  cluster: Cluster
  hostId: string
  hostQueue: string
  namespaceId: string
  /** Limits concurrent pod starts. */
  starting: Slots
  runners: RunnerPool
  relays: RelayPool
  runtime: string | null
  seccompProfile: string
  maxLifeMs: number
  log(message: string, facts: Record<string, string | number>): void
}

/** A runner that does not answer within this time is given up. */
const READY_MS = 60_000
/** How long a pod may wait in the scheduler's queue for other sandboxes to end. */
const ROOM_MS = 10 * 60_000
/** Pulled images of real tasks are gigabytes in size. */
const START_MS = 30 * 60_000
/** Repacking a repository of gigabytes takes minutes on a slow disk. */
const SCRUB_MS = 9 * 60_000

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
      runnerMap: await ensureRunnerMap(cluster),
      seccompProfile: context.seccompProfile,
      runtime: context.runtime,
      labels: sandboxLabels(input, context, input.expectedDigest ?? ''),
    })
    const { name } = asked.metadata
    const { pod: created, isNew } = await createOrAdopt(cluster, asked)
    try {
      const pod = await untilRunning(context, created, input, signal)
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
  const made = await create(cluster, asked)
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
  const deviations = podDeviations(asked, pod)
  if (deviations.length === 0) return { pod, isNew: made !== null }
  await deletePod(cluster, name)
  throw new LonghaulError({
    code: made === null ? 'Sandbox.Lost' : 'Sandbox.Unsafe',
    message: 'The cluster created a pod that deviates from its specification; it was deleted before an agent ran in it',
    details: { name, deviations: deviations.join(', ') },
  })
}

/** Returns null if the name is taken. */
async function create(cluster: Cluster, asked: Pod): Promise<Pod | null> {
  try {
    return (await cluster.ask({ method: 'POST', path: cluster.pathOf('pods'), body: asked })) as Pod
  } catch (error) {
    if (error instanceof ClusterRefusal && error.reason === 'AlreadyExists') return null
    throw error
  }
}

function lost(name: string, message: string): LonghaulError {
  return new LonghaulError({ code: 'Sandbox.Lost', message, details: { name } })
}

async function untilRunning(
  { cluster, log }: PodContext,
  created: Pod,
  { image }: OpenSandboxInput,
  signal: AbortSignal,
): Promise<Pod> {
  const { name, uid } = created.metadata
  const beganMs = performance.now()
  let pod: Pod | null = created
  let isWaiting = false
  for (let look = 0; ; look += 1) {
    if (pod === null || pod.metadata.uid !== uid) throw lost(name, 'The pod was deleted before it ran')
    if (isRunning(pod)) return pod
    if (isTakenAway(pod) || pod.status?.phase === 'Failed' || pod.status?.phase === 'Succeeded')
      throw endOf(pod, { name, cause: null, askedMs: null })
    const passedMs = performance.now() - beganMs
    const block = blockOf(pod, image)
    if (block?.kind === 'failed') throw block.error
    if (block !== null && passedMs > ROOM_MS) throw block.error
    if (block !== null && !isWaiting) log('sandbox pod: waits for room', { pod: name, why: block.error.message })
    isWaiting = block !== null
    if (passedMs > START_MS) throw lost(name, `The pod did not start within ${START_MS / 60_000} minutes`)
    await sleep(Math.min(1000, 50 + 25 * look), undefined, { signal }).catch(() => signal.throwIfAborted())
    pod = await readPod(cluster, name, signal)
  }
}

/** @throws LonghaulError `Sandbox.ImageMismatch`. Images without a registry digest are not compared. */
function requireDigest(pod: Pod, { image, expectedDigest }: OpenSandboxInput): string {
  const id = statusOfSandbox(pod)?.imageID ?? ''
  const digest = /sha256:[0-9a-f]{64}/.exec(id)?.[0] ?? id
  if (!id.includes('@')) return digest
  for (const wanted of [image.split('@')[1], expectedDigest]) {
    if (wanted === undefined || wanted === digest) continue
    throw new LonghaulError({
      code: 'Sandbox.ImageMismatch',
      message: 'Expected the image that the task was gated with',
      details: { image, wanted, found: digest },
    })
  }
  return digest
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

/** Prints the exit code, because a program that the runner starts does not return one here. */
const SAYS_CODE = '/bin/sh -c "$1" scrub "$2"; echo "lh-scrub=$?"'

/** Removes the history from the pod's own repository, because a cluster has no place for an image that is scrubbed once for all. It
 *  runs in the jail, because a late second attempt may coincide with the agent of the first. */
async function scrub(cluster: Cluster, name: string, { image, repoDir }: OpenSandboxInput): Promise<void> {
  const script = await readFile(new URL('../docker/sandbox/runner/scrub.sh', import.meta.url), 'utf8')
  const command = [`${RUNNER_FOLDER}/runner`, 'enter', '/bin/sh', '-c', SAYS_CODE, 'lh', script, repoDir]
  const { words } = await runInPod(cluster, name, command, SCRUB_MS)
  const said = /lh-scrub=(\d+)\s*$/.exec(words)?.[1]
  const exitCode = said === undefined ? null : Number(said)
  if (exitCode === 0) return
  throw historyKept({ image, repoDir, exitCode, reason: words.trim().slice(-300) })
}
