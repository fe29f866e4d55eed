import { createHash, randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { deflateSync } from 'node:zlib'
import type { Container, ContainerInspectInfo } from 'dockerode'
import type { AuditRun } from '../../../contracts/audit.types.ts'
import { LonghaulError } from '../../../contracts/errors.ts'
import type { GradeRunInput, GradeRunResult, GradingMachine } from '../../../contracts/sandbox.types.ts'
import { endedFromInside } from '../container/container-state.ts'
import { containerName } from '../container/labels.ts'
import { containerSpec } from '../container/container-spec.ts'
import { readAuditScript, readTreeScript } from './audit/audit-script.ts'
import { createOrAdopt, removeContainer } from '../container/create-container.ts'
import type { Engine } from '../engine/engine.ts'
import { encodeGradeInput, gradeCommand } from './grade-input.ts'
import {
  type AuditOutput,
  attachGrading,
  endedByTests,
  failed,
  type GradingAnswer,
  type GradingStream,
} from './grade-output.ts'
import { requireImage } from '../images/images.ts'
import { HOSTS_FILE, textFile } from '../sandbox/runner-files.ts'
import { type SandboxContext, limitsOnHost } from '../sandbox/sandbox-context.ts'
import type { FileToPack } from '../engine/tar.ts'
import { shellQuote } from '../../../platform/shell-quote.ts'

/** Slack beyond the deadline inside the container: start, apply and a loaded machine. */
export const GRADING_SLACK_MS = 60_000

/** Slack beyond the limit of the audited tests: `tree.py` waits a minute for `audit.py` to save the tree, and then restores it. */
const AUDIT_SLACK_MS = 90_000

const DEFAULT_PATCH_PATH = '/tmp/patch.diff'

/** Runs the evaluation in a fresh container whose main process is the grading itself. There is no exec, and no process can outlive
 *  the grading. The container is removed before this returns.
 *  @throws LonghaulError `Sandbox.ImageMissing`, `Sandbox.Stalled`, `Grading.Failed` */
export async function runGradingContainer(
  context: SandboxContext,
  input: GradeRunInput,
  signal: AbortSignal,
): Promise<GradeRunResult> {
  return context.grading.use(async () => {
    const { engine, gradingSlackMs } = context
    const digest = await requireImage({ engine: context.engine, ...input })
    const spec = gradingSpec(context, input, digest)
    const name = spec.name ?? ''
    const newMark = (): string => randomBytes(16).toString('hex')
    const marks = { official: newMark(), audit: input.audit === undefined ? null : newMark() }
    const streams: GradingStream[] = []
    let watching = Promise.resolve()
    try {
      const { text, archive } = await encodeGradeInput(await gradeFiles(input), marks)
      const { container, stream, startedAtMs, startMs } = await context.starting.use(async () => {
        const container = await createAnew(engine, spec)
        if (archive !== null) await container.putArchive(archive, { path: '/' })
        const stream = await attachGrading(container, text, marks)
        streams.push(stream)
        const startedAtMs = Date.now()
        const startMs = performance.now()
        await container.start()
        watching = watchDisk(context, name)
        return { container, stream, startedAtMs, startMs }
      }, signal)
      const output = await answerInTime(engine, container, stream, {
        timeoutMs: gradingTimeoutMs(input) + gradingSlackMs,
        signal,
      })
      const machine = machineOf(engine, spec, { startedAtMs, endedAtMs: Date.now() })
      return toResult(output, { startMs, imageDigest: digest, machine, timeoutMs: input.timeoutMs })
    } catch (error) {
      throw asDiskLimit(context, name) ?? error
    } finally {
      for (const stream of streams) stream.close()
      await watching
      context.disks.remove(name)
      await removeContainer({ engine, name }).finally(() => context.cpus.give(name))
    }
  }, signal)
}

/** Graded code may write as much as an agent. If the container cannot be watched, it is graded anyway. */
async function watchDisk({ disks, log }: SandboxContext, name: string): Promise<void> {
  await disks.add(name).catch((error: unknown) => {
    log('disk watch: not watched', { sandbox: name, why: error instanceof Error ? error.message : String(error) })
  })
}

/** Returns null if the container was not killed for what it wrote. */
function asDiskLimit({ disks }: SandboxContext, name: string): LonghaulError | null {
  try {
    disks.requireWithin(name)
    return null
  } catch (error) {
    return endedByTests((error as LonghaulError).message)
  }
}

function gradingSpec(context: SandboxContext, input: GradeRunInput, imageDigest: string) {
  // Several patches of one episode may be graded concurrently, and two runs may gate the same task, so both are part of the name.
  const what = createHash('sha256')
    .update(`${input.run}\0`)
    .update(input.patch)
    .update('\0')
    .update(input.evalScript)
    .digest('hex')
    .slice(0, 8)
  const name = containerName([input.episode, input.role, what])
  return containerSpec({
    engine: context.engine,
    name,
    image: input.image,
    command: gradeCommand(Math.ceil(input.timeoutMs / 1000)),
    workingDir: input.repoDir,
    limits: limitsOnHost(context, input.limits),
    cpuset: context.cpus.take(name, input.limits.cpus),
    capabilities: 'grading',
    stdin: true,
    labels: {
      run: input.run,
      episode: input.episode,
      role: input.role,
      fence: 1,
      leaseMs: input.leaseMs,
      // The lease is never renewed. The container's own deadline ends it, after which no activity waits for it.
      maxLifeMs: Math.max(input.leaseMs, gradingTimeoutMs(input) + context.gradingSlackMs),
      owner: input.owner,
      ownerRun: input.ownerRun,
      namespaceId: context.namespaceId,
      host: context.hostId,
      imageDigest,
    },
  })
}

/** Grading keeps nothing between attempts, so a container of an earlier attempt is removed and never adopted. */
async function createAnew(engine: Engine, spec: ReturnType<typeof gradingSpec>): Promise<Container> {
  const first = await createOrAdopt({ engine, spec })
  if (first.existing === null) return first.container
  await removeContainer({ engine, name: spec.name ?? '' })
  return (await createOrAdopt({ engine, spec })).container
}

async function gradeFiles(input: GradeRunInput): Promise<FileToPack[]> {
  const { applyCommands, resetCommand, lastCheck, files = {}, environment = {} } = input
  // Every word is quoted, so the shell interprets none of them.
  const command = (name: string, words: readonly string[]) => textFile(name, words.map(shellQuote).join(' '))
  const exports = Object.entries(environment).map(([name, value]) => `export ${name}=${shellQuote(value)}\n`)
  return [
    { name: '.lh/', mode: 0o700 },
    { name: '.lh/grade/', mode: 0o700 },
    { name: '.lh/apply/', mode: 0o700 },
    HOSTS_FILE,
    textFile('.lh/repository', input.repoDir),
    ...(await auditFiles(input)),
    ...applyCommands.map((words, index) => command(`.lh/apply/${String(index).padStart(2, '0')}`, words)),
    ...(resetCommand === undefined ? [] : [command('.lh/reset', resetCommand)]),
    ...(lastCheck === undefined ? [] : [command('.lh/last-check', lastCheck)]),
    ...(input.output === 'apart' ? [textFile('.lh/apart', '')] : []),
    textFile('.lh/environment', exports.join('')),
    { name: (input.patchPath ?? DEFAULT_PATCH_PATH).slice(1), body: input.patch, mode: 0o644 },
    ...Object.entries(files).map(([path, body]) => ({ name: path.slice(1), body: Buffer.from(body), mode: 0o644 })),
    { name: 'eval.sh', body: Buffer.from(input.evalScript), mode: 0o755 },
  ]
}

/** The audited tests have their own limit. The slack covers the audit's other steps. */
function gradingTimeoutMs({ timeoutMs, audit }: GradeRunInput): number {
  return timeoutMs + (audit === undefined || audit.tests === null ? 0 : audit.tests.timeoutMs + AUDIT_SLACK_MS)
}

/** Returns no files without an audit, and the scripts only if the audit runs tests. */
async function auditFiles({ audit, patchPath = DEFAULT_PATCH_PATH, repoDir }: GradeRunInput): Promise<FileToPack[]> {
  if (audit === undefined) return []
  const files: FileToPack[] = [{ name: '.lh/audit/', mode: 0o700 }, textFile('.lh/audit/patch', patchPath)]
  if (audit.tests === null) return files
  const { limits, additions, testPatch, interpreter, timeoutMs, ...tests } = audit.tests
  const spec = {
    schema: 1,
    repository: repoDir,
    ...tests,
    uid: '@UID@',
    gid: '@UID@',
    timeout_s: Math.ceil(timeoutMs / 1000),
  }
  const [tree, script] = await Promise.all([readTreeScript(), readAuditScript()])
  return [
    ...files,
    textFile('.lh/audit/limits', limits.map(shellQuote).join(' ')),
    ...(additions.length === 0 ? [] : [textFile('.lh/audit/additions', `${additions.join('\n')}\n`)]),
    textFile('.lh/audit/interpreter', interpreter),
    textFile('.lh/audit/test.diff', testPatch),
    textFile('.lh/audit/spec.json', JSON.stringify(spec)),
    textFile('.lh/audit/tree.py', tree),
    // Compressed, it is short enough for the shell to write.
    textFile('.lh/audit/audit.py', packed(script)),
  ]
}

/** @internal exported for its test */
export function packed(script: string): string {
  return deflateSync(script, { level: 9 }).toString('base64')
}

async function answerInTime(
  engine: Engine,
  container: Container,
  stream: GradingStream,
  { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
): Promise<GradingAnswer> {
  // An abort during the start has no listener yet, and an already aborted signal fires no event.
  signal.throwIfAborted()
  const { promise: interrupted, resolve, reject } = Promise.withResolvers<'overdue'>()
  const onAbort = (): void => reject(signal.reason as Error)
  const timer = setTimeout(() => resolve('overdue'), timeoutMs)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    const output = await Promise.race([stream.answer, interrupted])
    if (output === 'overdue') return await overdue(container, stream, timeoutMs)
    if (output !== null) return output
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
  }
  throw await withoutResult(engine, container)
}

/** Distinguishes a lost engine from a lost container. */
async function withoutResult(engine: Engine, container: Container): Promise<LonghaulError> {
  const message = 'The grading container ended without a result'
  const { Id: id, State: state } = await container.inspect()
  // The stream ends shortly before the engine notices the exit. If the stream breaks while the container runs, the engine is at fault.
  const seen = state.Running ? await endOf(container) : state
  const isOwnDoing = seen !== null && (await endedFromInside(engine, { id, state: seen }, 0))
  return isOwnDoing ? endedByTests(message) : failed(message)
}

async function endOf(container: Container): Promise<ContainerInspectInfo['State'] | null> {
  for (let look = 0; look < 20; look += 1) {
    await sleep(100)
    const { State: state } = await container.inspect()
    if (!state.Running) return state
  }
  return null
}

/**
 * Handles a container that did not end by its own deadline. If it still runs, its tests, which are root there, have killed their own
 * watchdog, so they are over their limit like any others. A paused container or a silent engine says nothing about the tests.
 */
async function overdue(container: Container, stream: GradingStream, timeoutMs: number): Promise<GradingAnswer> {
  const { State: state } = await container.inspect()
  if (!state.Running || state.Paused) throw stalled(container.id, timeoutMs)
  return {
    words: ['timed-out', '137'],
    log: Buffer.alloc(0),
    errors: Buffer.alloc(0),
    audit: stream.audit(),
    atMs: performance.now(),
  }
}

function stalled(container: string, timeoutMs: number): LonghaulError {
  return new LonghaulError({
    code: 'Sandbox.Stalled',
    message: 'A grading container did not end by its own deadline',
    details: { container: container.slice(0, 12), timeoutMs },
  })
}

/**
 * Maps the container's answer to a result. No time in it is trusted, because the patched code is root in the container.
 * @param startMs before the container ran, by the clock of the answer
 * @internal exported for its test
 */
export function toResult(
  { words, log: merged, errors, audit, atMs }: GradingAnswer,
  {
    startMs,
    timeoutMs,
    ...facts
  }: Pick<GradeRunResult, 'imageDigest' | 'machine'> & { startMs: number; timeoutMs: number },
): GradeRunResult {
  const [kind, code = '', peak = ''] = words
  const unknown = (): LonghaulError =>
    endedByTests(`The grading container returned an unknown result: ${words.join(' ').slice(0, 200)}`)
  if (!isCount(code, 255)) throw unknown()
  const isPeak = isCount(peak, 2 * facts.machine.memoryMiB * 1024 * 1024)
  const common = {
    log: errors.length === 0 ? merged : Buffer.concat([merged, errors]),
    ...facts,
    wallMs: Math.round(atMs - (audit?.atMs ?? startMs)),
    ...(isPeak ? { peakMemoryBytes: Number(peak) } : {}),
    ...(audit === null ? {} : { audit: toAudit(audit, startMs) }),
  }
  if (kind === 'ran') return { kind, exitCode: Number(code), ...common }
  // A limit that has not passed on this clock has not passed in the container: the two clocks drift by less than a hundredth.
  if (kind === 'timed-out' && atMs - startMs >= 0.99 * timeoutMs) return { kind, ...common }
  if (kind === 'did-not-apply') return { kind: 'patch-did-not-apply', exitCode: Number(code), ...common }
  throw unknown()
}

function isCount(word: string, most: number): boolean {
  return /^\d{1,16}$/.test(word) && Number(word) <= most
}

const AUDIT_KINDS: readonly AuditRun['kind'][] = [
  'does-not-apply',
  'read',
  'tests-do-not-apply',
  'untestable',
  'does-not-fit',
  'failed',
  'tested',
]

function toAudit({ words, patch, result, errors, atMs }: AuditOutput, startMs: number): AuditRun {
  const kind = AUDIT_KINDS.find((known) => known === words[0])
  if (kind === undefined || words.length !== 1) {
    throw failed(`The grading container returned an unknown audit: ${words.join(' ').slice(0, 200)}`)
  }
  return { kind, canonicalPatch: patch, result, errors: errors.toString(), wallMs: Math.round(atMs - startMs) }
}

function machineOf(
  engine: Engine,
  { HostConfig }: ReturnType<typeof gradingSpec>,
  times: { startedAtMs: number; endedAtMs: number },
): GradingMachine {
  return {
    engine: engine.version,
    cgroupVersion: engine.facts.cgroupVersion,
    cpuset: HostConfig?.CpusetCpus ?? '',
    memoryMiB: (HostConfig?.Memory ?? 0) / (1024 * 1024),
    ...times,
  }
}
