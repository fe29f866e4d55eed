import { randomUUID } from 'node:crypto'
import { storedLogKey } from '../../adapters/artifacts/stored-log.ts'
import { parse, ParserOverrun } from '../../adapters/parsing/parser-pool.ts'
import type { GateCheck, GateRecord } from '../../contracts/gates.types.ts'
import { gateKeys } from '../../contracts/keys.ts'
import type { GradeRunResult, SandboxHost, SandboxLimits } from '../../contracts/sandbox.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { RUN_PROFILES } from '../../grading/profiles/run-profiles.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { type GradingDependencies, runGrading } from '../grading/run-grading.ts'
import type { VerifiedImage } from './verify-image.ts'

/** Increase it when gates judge differently, so that tasks are gated again. Profiles have their own revision. */
const GATE_VERSION = 14

export interface GateGradingInput {
  run: string
  /** Workflow id and run id of the owner, for the reaper. */
  owner: string
  ownerRun?: string
  task: Task
  image: VerifiedImage
  limits: SandboxLimits
}

/**
 * Identifies gradings that are interchangeable. An image that each host makes from a seed has a different digest on each host and the
 * same content, so its name identifies it.
 */
export function gateIdentity({ task, image, limits }: Pick<GateGradingInput, 'task' | 'image' | 'limits'>): string {
  const content = task.synthetic === null ? image.digest : task.image
  const { cpus, memoryMiB, pids } = limits
  const { revision } = RUN_PROFILES[task.gradingProfile]
  return sha256Hex(
    JSON.stringify([GATE_VERSION, task.rowHash, content, task.gradingProfile, revision, cpus, memoryMiB, pids]),
  ).slice(0, 24)
}

/** Grades once and stores the result; the first writer wins. */
export async function gradeForGate(
  deps: GradingDependencies,
  input: GateGradingInput & { check: GateCheck; repeat: number },
  signal: AbortSignal,
): Promise<GateRecord> {
  const { run, owner, ownerRun, task, image, limits, check, repeat } = input
  const { taskId } = task
  const identity = gateIdentity(input)
  const logKey = gateKeys.log(taskId, identity, `${check}-${repeat}-${randomUUID().slice(0, 8)}`)
  const seen = watchGradings(deps.sandbox)
  const { kind, reason, gradeMs, audit } = await runGrading(
    { ...deps, sandbox: seen.sandbox },
    {
      run,
      episode: `gate/${identity.slice(0, 12)}/${taskId}/${check}-${repeat}`,
      owner,
      ...(ownerRun === undefined ? {} : { ownerRun }),
      role: 'gate',
      limits,
      // Published patches are written by other versions of Git, or by other programs.
      isCaptured: false,
      patch: check === 'gold' ? new TextEncoder().encode(task.goldPatch) : new Uint8Array(),
      ...(image.registryDigest === null ? {} : { expectedDigest: image.registryDigest }),
      task,
      logKey,
    },
    signal,
  )
  const { record } = await deps.store.claimRecord<GateRecord>(gateKeys.grading(taskId, identity, check, repeat), {
    schema: 'longhaul.gate/2',
    taskId,
    run,
    check,
    repeat,
    verdict: kind,
    reason,
    gradings: seen.runs.length,
    gradeMs,
    ...(audit === undefined ? {} : { audit }),
    peakMemoryBytes: peakOf(seen.runs),
    imageDigest: image.digest,
    profile: task.gradingProfile,
    logKey: storedLogKey(logKey),
    ...(await readGateLog(task, seen.runs.at(-1))),
  })
  return record
}

/** All existing records, in the order of their creation. */
export async function readGateRecords(
  { store }: Pick<GradingDependencies, 'store'>,
  { taskId, identity, repeats }: { taskId: string; identity: string; repeats: number },
): Promise<GateRecord[]> {
  const keys = (['gold', 'empty'] as const).flatMap((check) =>
    Array.from({ length: repeats }, (_, at) => gateKeys.grading(taskId, identity, check, at + 1)),
  )
  const records = await Promise.all(keys.map((key) => store.readRecord<GateRecord>(key)))
  return records.filter((record) => record !== null)
}

/** The gradings of one verdict in the order in which they were made. A result that the machine may have caused is graded twice. */
function watchGradings(sandbox: SandboxHost): {
  sandbox: Pick<SandboxHost, 'grade'> & SandboxHost
  runs: GradeRunResult[]
} {
  const runs: GradeRunResult[] = []
  const grade: SandboxHost['grade'] = async (input, signal) => {
    const ran = await sandbox.grade(input, signal)
    runs.push(ran)
    return ran
  }
  return { sandbox: { ...sandbox, grade }, runs }
}

function peakOf(runs: readonly GradeRunResult[]): number | null {
  const peaks = runs.flatMap(({ peakMemoryBytes }) => (peakMemoryBytes === undefined ? [] : [peakMemoryBytes]))
  return peaks.length === 0 ? null : Math.max(...peaks)
}

/** A log that takes too much time or memory to parse proves nothing. */
async function readGateLog(
  task: Task,
  ran: GradeRunResult | undefined,
): Promise<Pick<GateRecord, 'notPassed' | 'exceptions' | 'missedNames'>> {
  const nothing = { notPassed: {}, exceptions: {}, missedNames: [] }
  if (ran?.kind !== 'ran') return nothing
  const { gradingProfile, installConfig, failToPass, passToPass } = task
  const read = { gradingProfile, installConfig, failToPass, passToPass }
  return parse('readGateLog', read, ran.log).catch((error: unknown) => {
    if (error instanceof ParserOverrun) return nothing
    throw error
  })
}
