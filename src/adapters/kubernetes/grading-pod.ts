import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { LonghaulError } from '../../contracts/errors.ts'
import type { FileToPack } from '../docker/engine/tar.ts'
import {
  GRADING_SLACK_MS,
  type Grading,
  type GradingAnswered,
  answerInTime,
  encodeGradeInput,
  gradeCommand,
  namePartsOf,
  stalled,
} from '../docker/grader/grading.ts'
import { answerOn, endedByTests, failed } from '../docker/grader/grade-output.ts'
import type { Cluster } from './cluster.ts'
import type { ExecStream } from './exec-stream.ts'
import { inFreshPod } from './fresh-pod.ts'
import { enter, readPod, readUntil } from './pod-access.ts'
import { endOf, isNodeLost, isRunning, isTakenAway } from './pod-state.ts'
import { type PodContext, requireDigest } from './start-pod.ts'

/** Limit for one file that is sent. */
const SEND_MS = 2 * 60_000
/** A kubelet reports the end of a pod some seconds after it. */
const REPORT_MS = 5_000
const LOOK_MS = 250
/** How long a script waits after its answer, because a cluster may lose the last output of a program that ends. */
const LINGER_S = 60

/**
 * Runs a script in a fresh pod, below its runner: the script and all that it starts have neither the pod's network nor a way to the
 * runner, as an agent's commands. The pod is deleted before this returns, and with it every process that the script has left.
 * @throws LonghaulError `Sandbox.ImageMissing`, `Sandbox.Stalled`, `Grading.Failed`, `Grading.Ended`
 */
export function answerOfPod<T>(
  context: PodContext,
  grading: Grading<T>,
  signal: AbortSignal,
): Promise<GradingAnswered<T>> {
  const { patch } = grading
  const { cluster } = context
  const timeoutMs = grading.timeoutMs + GRADING_SLACK_MS
  const fresh = { parts: namePartsOf(grading), holder: patch, runMs: Math.max(patch.leaseMs, timeoutMs) }
  return context.grading.use(async () => {
    const engine = `Kubernetes ${await versionOf(cluster)}`
    return inFreshPod(context, fresh, signal, async ({ name, pod }) => {
      const imageDigest = requireDigest(pod, patch)
      const mark = randomBytes(16).toString('hex')
      const { text, large } = await encodeGradeInput({ ...grading, mark, lingerS: LINGER_S })
      for (const file of large) await send(cluster, name, file)
      const socket = await enter(cluster, name, gradeCommand(Math.ceil(grading.testTimeoutMs / 1000)))
      const startedAtMs = Date.now()
      const startMs = performance.now()
      const stream = answerOn(socket, text, grading.read(mark))
      try {
        const answer = await answerInTime(stream, {
          timeoutMs,
          signal,
          overdue: async () => {
            await requireAtWork(cluster, name, timeoutMs)
            return grading.overdue()
          },
          lost: () => withoutResult(cluster, name, socket),
        })
        const { memoryMiB } = patch.limits
        const machine = { engine, cgroupVersion: null, cpuset: '', memoryMiB, startedAtMs, endedAtMs: Date.now() }
        return { answer, startMs, imageDigest, machine }
      } finally {
        stream.close()
      }
    })
  }, signal)
}

/** Counts the bytes, because the input of a program in a pod has no end. */
const RECEIVE =
  'umask 022; mkdir -p "${2%/*}" && head -c "$1" >"$2" && chmod "$3" "$2" && echo lh-received && read -r lh_seen'

async function send(cluster: Cluster, name: string, { name: path, body, mode }: FileToPack): Promise<void> {
  if (body === undefined) return
  const bytes = Buffer.from(body)
  const words = [String(bytes.length), `/${path}`, mode.toString(8)]
  const stream = await enter(cluster, name, ['/bin/sh', '-c', RECEIVE, 'lh', ...words])
  stream.write(bytes)
  if ((await readUntil(stream, /^lh-received$/m, SEND_MS)) === null)
    throw failed(`A file of ${bytes.length} bytes could not be sent to the pod ${name}`)
}

/**
 * Says who ended a grading without a result: the tests, which may be root, or the cluster. The first process of a pod outlives the
 * script, so a script that ended without an answer was ended by its tests, as was a pod that ran out of memory or disk.
 */
async function withoutResult(cluster: Cluster, name: string, socket: ExecStream): Promise<LonghaulError> {
  const message = 'The grading pod ended without a result'
  const until = performance.now() + REPORT_MS
  for (;;) {
    const pod = await readPod(cluster, name)
    if (pod === null || isTakenAway(pod) || isNodeLost(pod)) return failed(message)
    if (!isRunning(pod)) {
      const end = endOf(pod, { name, cause: null, askedMs: null })
      const isOwnDoing = end.code === 'Sandbox.Ended' || end.code === 'Sandbox.DiskLimit'
      return isOwnDoing ? endedByTests(`${message}: ${end.message}`) : failed(`${message}: ${end.message}`)
    }
    if (performance.now() > until) return socket.exitCode === null ? failed(message) : endedByTests(message)
    await sleep(LOOK_MS)
  }
}

/** A pod that still runs at the end of its time: its tests have killed their own watchdog. */
async function requireAtWork(cluster: Cluster, name: string, timeoutMs: number): Promise<void> {
  const pod = await readPod(cluster, name)
  if (pod === null || !isRunning(pod) || isNodeLost(pod)) throw stalled(name, timeoutMs)
}

async function versionOf(cluster: Cluster): Promise<string> {
  const { gitVersion } = (await cluster.ask({ path: '/version' })) as { gitVersion?: string }
  return gitVersion ?? 'unknown'
}
