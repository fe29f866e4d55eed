import type { AuditOutcome } from '../../../contracts/audit.types.ts'
import type {
  FlippingTest,
  GatedSuite,
  GateOutcome,
  GateRecord,
  GateReport,
  ImageRecord,
  TaskGate,
} from '../../../contracts/gates.types.ts'
import { audit, verdictKind } from './episode-shapes.ts'
import { absentable, amount, count, listOf, mapOf, nullable, object, oneOf, partialMapOf, size, text } from './shape.ts'
import { gradingProfile, suiteOrigin } from './suite-shapes.ts'

const check = oneOf('gold', 'empty')

export const gate = object<GateRecord>({
  schema: oneOf('longhaul.gate/2'),
  taskId: text,
  run: text,
  check,
  repeat: size,
  verdict: verdictKind,
  reason: nullable(text),
  gradings: size,
  gradeMs: amount,
  audit: absentable(audit),
  peakMemoryBytes: nullable(count),
  imageDigest: text,
  profile: gradingProfile,
  notPassed: mapOf(text),
  exceptions: mapOf(count),
  missedNames: listOf(text),
  logKey: text,
})

const spread = nullable(object<{ p50: number; max: number }>({ p50: amount, max: amount }))
const AUDITS = ['agrees', 'void', 'unsupported'] as const satisfies readonly AuditOutcome[]

export const taskGate = object<TaskGate>({
  schema: oneOf('longhaul.task-gate/1'),
  run: text,
  taskId: text,
  rowHash: text,
  profile: gradingProfile,
  image: text,
  imageDigest: nullable(text),
  registryDigest: nullable(text),
  outcome: oneOf('passed', 'gold-fails', 'empty-resolves', 'flaky', 'not-auditable', 'could-not-gate'),
  reason: nullable(text),
  audits: absentable(partialMapOf(AUDITS, count)),
  failure: nullable(text),
  gradings: object<TaskGate['gradings']>({ gold: size, empty: size, made: size }),
  identity: nullable(text),
  regraded: size,
  flips: listOf(object<FlippingTest>({ check, test: text, statuses: mapOf(count) })),
  failing: listOf(text),
  exceptions: mapOf(count),
  hiddenNames: listOf(text),
  gradeMs: spread,
  peakMemoryBytes: nullable(count),
})

export const gatedSuite = object<GatedSuite>({
  schema: oneOf('longhaul.gated-suite/2'),
  suite: text,
  repeats: size,
  admitted: listOf(text),
  refused: listOf(object<GatedSuite['refused'][number]>({ taskId: text, reason: text })),
  digests: mapOf(text),
})

export const gateReport = object<GateReport>({
  schema: oneOf('longhaul.gate-report/1'),
  run: text,
  suite: text,
  name: text,
  origin: absentable(nullable(suiteOrigin)),
  repeats: size,
  tasks: count,
  counts: object<Record<GateOutcome, number>>({
    passed: count,
    'gold-fails': count,
    'empty-resolves': count,
    flaky: count,
    'not-auditable': count,
    'could-not-gate': count,
  }),
  gradings: object<GateReport['gradings']>({ total: count, made: size, reused: count }),
  gradeMs: spread,
  peakMemoryBytes: nullable(count),
  withoutMemory: count,
  gates: listOf(taskGate),
})

export const imageCheck = object<ImageRecord>({
  schema: oneOf('longhaul.image-check/1'),
  image: text,
  digest: text,
  repoDir: text,
  commit: text,
  head: text,
})
