import type { LonghaulError } from '../../contracts/errors.ts'
import type { GateRecord, TaskGate } from '../../contracts/gates.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { isGateCheckOk, judgeGate } from '../../domain/gates/gate-rules.ts'
import { hiddenNames } from '../../domain/gates/hidden-names.ts'
import type { VerifiedImage } from './verify-image.ts'

/** A suite of thousands of tasks is read into one report: lists are cut here, logs and gradings have the rest. */
const MAX_NAMED = 50

/** Sums up all gradings of one task. */
export function toTaskGate({
  run,
  task,
  image,
  repeats,
  identity,
  needsAudit,
  checks,
}: {
  run: string
  task: Task
  image: VerifiedImage
  repeats: number
  identity: string
  needsAudit: boolean
  checks: readonly GateRecord[]
}): TaskGate {
  const { outcome, reason, flips } = judgeGate({ checks, repeats, needsAudit })
  const gold = checks.filter(({ check }) => check === 'gold')
  const failed = gold.filter((check) => !isGateCheckOk(check))
  const isAlwaysMissed = (test: string): boolean => gold.every(({ notPassed }) => Object.hasOwn(notPassed, test))
  const log = checks.find(({ check }) => check === 'empty')?.missedNames.join('\n') ?? ''
  const times = checks.map(({ gradeMs }) => gradeMs).toSorted((a, b) => a - b)
  const peaks = checks.flatMap(({ peakMemoryBytes: peak }) => (peak === null ? [] : [peak]))
  return {
    ...identityOf(run, task),
    imageDigest: image.digest,
    registryDigest: image.registryDigest,
    outcome,
    reason,
    audits: countAudits(gold),
    failure: null,
    gradings: {
      gold: gold.length,
      empty: checks.length - gold.length,
      made: checks.filter((check) => check.run === run).length,
    },
    identity,
    regraded: checks.filter(({ gradings }) => gradings > 1).length,
    flips: flips.slice(0, MAX_NAMED),
    failing:
      failed.length === 0
        ? []
        : Object.keys(failed[0]?.notPassed ?? {})
            .filter(isAlwaysMissed)
            .slice(0, MAX_NAMED),
    exceptions: sum(failed.map(({ exceptions }) => exceptions)),
    hiddenNames: hiddenNames({ log, goldPatch: task.goldPatch }).slice(0, MAX_NAMED),
    gradeMs: times.length === 0 ? null : { p50: median(times), max: times.at(-1) ?? 0 },
    peakMemoryBytes: peaks.length === 0 ? null : Math.max(...peaks),
  }
}

/** A task that could not be gated at all. */
export function failedGate({ run, task, failure }: { run: string; task: Task; failure: LonghaulError }): TaskGate {
  return {
    ...identityOf(run, task),
    imageDigest: null,
    registryDigest: null,
    outcome: 'could-not-gate',
    reason: `${failure.message} (${failure.code})`,
    failure: failure.code,
    gradings: { gold: 0, empty: 0, made: 0 },
    identity: null,
    regraded: 0,
    flips: [],
    failing: [],
    exceptions: {},
    hiddenNames: [],
    gradeMs: null,
    peakMemoryBytes: null,
  }
}

function identityOf(run: string, { taskId, rowHash, gradingProfile, image }: Task) {
  return { schema: 'longhaul.task-gate/1' as const, run, taskId, rowHash, profile: gradingProfile, image }
}

function countAudits(gold: readonly GateRecord[]): NonNullable<TaskGate['audits']> {
  const counts: NonNullable<TaskGate['audits']> = {}
  for (const { audit } of gold) {
    if (audit !== undefined) counts[audit.outcome] = (counts[audit.outcome] ?? 0) + 1
  }
  return counts
}

function sum(counts: readonly Record<string, number>[]): Record<string, number> {
  const total: Record<string, number> = {}
  for (const count of counts) {
    for (const [name, times] of Object.entries(count)) total[name] = (total[name] ?? 0) + times
  }
  return total
}

/** @param sorted ascending, not empty */
function median(sorted: readonly number[]): number {
  const middle = Math.floor(sorted.length / 2)
  const upper = sorted[middle] ?? 0
  return sorted.length % 2 === 1 ? upper : Math.round(((sorted[middle - 1] ?? upper) + upper) / 2)
}
