/** A pipeline in which everything works: answers to every activity, which tests override one by one. */
import type { PolicyRef } from '../../src/contracts/policy.types.ts'
import type { SandboxHandle } from '../../src/contracts/sandbox.types.ts'
import type { EpisodeInput, PromptGroupInput, ResolvedRun, RolloutInput } from '../../src/contracts/workflows.types.ts'
import { ungradedVerdict } from '../../src/domain/ledger/episode-fates.ts'
import { type ActivityTable, takes } from './activity-script.ts'
import type { AllActivities } from './workflow-driver.ts'

/** As long as real hashes, because budgets are measured with it. */
export const SHA = 'a'.repeat(64)

export function artifact(key: string): { key: string; sha256: string; bytes: number } {
  return { key, sha256: SHA, bytes: 123_456 }
}

export function policyRef(step: number): PolicyRef {
  const version = `v${String(step).padStart(6, '0')}-0123abcd`
  return {
    version,
    uri: `file:///var/lib/longhaul/artifacts/policies/${version}`,
    manifestSha256: SHA,
    globalStep: step,
    checkpointUri: step === 0 ? null : `file:///var/lib/longhaul/artifacts/checkpoints/${version}`,
    checkpointSha256: step === 0 ? null : SHA,
  }
}

export const PLAN: ResolvedRun = {
  run: 'demo-2026-01-01-a',
  recipe: artifact('runs/demo-2026-01-01-a/recipe.json'),
  recipeName: 'demo',
  summary: 'demo · small-repairs · base',
  rft: true,
  stages: [
    { name: 'dapo-1', maxIterations: 2 },
    { name: 'dapo-2', maxIterations: 1 },
  ],
  evaluateEvery: null,
  gateRepeats: 1,
  heldOutName: 'held-out',
}

export const EPISODE: EpisodeInput = {
  run: PLAN.run,
  stage: 'dapo-1',
  iteration: 3,
  policy: policyRef(42).version,
  suite: SHA,
  taskId: 'synthetic__repair-000123',
  index: 7,
}

export const GROUP: PromptGroupInput = {
  run: PLAN.run,
  stage: 'dapo-1',
  iteration: 1,
  policy: policyRef(1).version,
  suite: SHA,
  taskId: 'synthetic__repair-000123',
  groupSize: 4,
  maxReplacements: 3,
}

export const ROLLOUT: RolloutInput = {
  run: PLAN.run,
  stage: 'dapo-1',
  iteration: 1,
  policy: policyRef(1),
  suite: SHA,
  plan: artifact('runs/demo-2026-01-01-a/dapo-1/iterations/0001/plan.json'),
  tasks: 12,
  groupSize: 2,
  maxReplacements: 2,
  maxOpenGroups: 3,
}

export const HOST_QUEUE = 'sandbox.host-0012.5b2f7c1e-8d43-4a6b-9f10-3c2d1e0f4a5b'

export function sandboxHandle(input: EpisodeInput & { placement: number }, hostQueue = HOST_QUEUE): SandboxHandle {
  return {
    name: `longhaul-${input.run}-${input.taskId}-${input.index}-p${input.placement}`,
    containerId: 'c'.repeat(64),
    image: `longhaul/task:${input.taskId}`,
    imageDigest: `sha256:${SHA}`,
    hostQueue,
    repoDir: '/testbed',
    startCommit: 'e'.repeat(40),
  }
}

export interface PipelineOptions {
  plan?: ResolvedRun
  tasks?: number
  groupSize?: number
  maxReplacements?: number
  maxOpenGroups?: number
  /** `advanceEpisode` calls per episode. */
  steps?: number
  turnsPerStep?: number
}

/** Answers with which every workflow ends well. */
export function scriptedPipeline({
  plan = PLAN,
  tasks = 2,
  groupSize = 2,
  maxReplacements = 1,
  maxOpenGroups = 2,
  steps = 2,
  turnsPerStep = 8,
}: PipelineOptions = {}): ActivityTable<AllActivities> {
  return {
    resolveRecipe: () => plan,
    prepareSuite: ({ which }) => ({ suite: SHA, name: which === 'heldOut' ? plan.heldOutName : which, tasks }),
    checkImages: () => ({ images: tasks, lacking: 0, asked: 0, missing: 0, unknown: 0 }),
    gateTask: () => ({ done: true, ok: true }),
    writeGateReport: () => ({
      counts: {
        passed: tasks,
        'gold-fails': 0,
        'empty-resolves': 0,
        flaky: 0,
        'not-auditable': 0,
        'could-not-gate': 0,
      },
      report: artifact('gates/report.json'),
      evidence: artifact('gates/evidence.jsonl'),
    }),
    gateWidth: () => ({ width: 16 }),
    requireDisjoint: () => ({ overlapping: 0 }),
    closeGate: () => ({ admitted: tasks, refused: 0 }),
    judgePlateau: () => ({ plateau: false }),
    resolvePolicy: () => policyRef(0),
    planIteration: ({ stage, iteration }) => ({
      plan: artifact(`runs/${plan.run}/${stage}/${iteration}/plan.json`),
      tasks,
      groupSize,
      maxReplacements,
      maxOpenGroups,
    }),
    planRefill: ({ stage, iteration, round }) => ({
      plan: artifact(`runs/${plan.run}/${stage}/${iteration}/refill-${round}.json`),
      tasks: 0,
      groupSize,
      maxReplacements,
      maxOpenGroups,
    }),
    readPlanPage: ({ from, count }) =>
      Array.from(
        { length: Math.min(count, tasks - from) },
        (_, place) => `task-${String(from + place).padStart(4, '0')}`,
      ),
    openSandbox: (input) => sandboxHandle(input),
    advanceEpisode: ({ step }) => ({ turns: step * turnsPerStep, disposition: step < steps ? null : 'submitted' }),
    captureSubmission: ({ index, taskId }) => artifact(`episodes/${plan.run}/${taskId}/${index}/patch.diff`),
    gradeSubmission: (input) => ({
      episode: `${input.run}/${input.stage}/${input.iteration}/${input.taskId}/${input.index}`,
      disposition: input.disposition,
      verdict: input.index % 2 === 0 ? 'resolved' : 'unresolved',
      turns: steps * turnsPerStep,
      failure: null,
    }),
    attendHost: () => takes(12 * 3_600_000, undefined),
    closeSandbox: () => undefined,
    openGrading: ({ run }) => ({ run: run ?? 'grade-2026-01-01-a', name: '40 predictions for held-out', patches: 40 }),
    gradePatch: ({ index }) => ({ kind: index % 2 === 0 ? 'resolved' : 'unresolved', reason: null }),
    recordUngradedPatch: ({ failure }) => ({ kind: 'could-not-grade', reason: failure }),
    closeGrading: ({ run }) => ({
      result: artifact(`runs/${run}/grading/result.json`),
      counts: { resolved: 20, unresolved: 20, couldNotGrade: 0, empty: 0, incomplete: 0 },
      graded: { mean: 0.5, sem: 0.08, interval: { low: 0.34, high: 0.66 }, tasks: 40, attempts: 40 },
      official: { mean: 0.5, sem: 0.08, interval: { low: 0.34, high: 0.66 }, tasks: 40, attempts: 40 },
      changed: 0,
    }),
    recordUngraded: (input) => ({
      episode: `${input.run}/${input.stage}/${input.iteration}/${input.taskId}/${input.index}`,
      disposition: input.disposition,
      verdict: ungradedVerdict(input.disposition).verdict,
      turns: 0,
      failure: input.failure,
    }),
    buildBatch: ({ stage, iteration }) => ({
      batches:
        stage === 'rft'
          ? [artifact(`${stage}/batch-00`), artifact(`${stage}/batch-01`)]
          : [artifact(`${stage}/${iteration}`)],
      trajectories: tasks * groupSize,
      groups: tasks,
      groupsKept: tasks,
      episodes: tasks * groupSize,
      infra: 0,
      meanReward: 0.5,
      resolvedRate: 0.5,
      meanTurns: steps * turnsPerStep,
    }),
    runTrainingJob: ({ policy, batch }) => ({
      policy: policyRef(policy.globalStep + 1),
      steps: 1,
      loss: 0.1,
      jobKey: batch.sha256,
    }),
    publishPolicy: () => undefined,
    releasePolicies: () => undefined,
    summarizeEvaluation: ({ name, policy }) => ({
      score: { name, policy: policy.version, passAt1: 0.5, sem: 0.1, tasks, attempts: groupSize },
      evaluation: artifact(`runs/${plan.run}/evaluations/${name}.json`),
    }),
    readEvaluation: () => ({ sha256: SHA, bytes: 2, data: 'e30=', next: null }),
    recordNight: () => ({ verdicts: [] }),
    findAlarms: () => ({ alarms: ['failure-0123'], givenUp: 0, notLookedAt: 0 }),
    sendAlarm: () => ({ sent: true }),
    keptPolicies: () => ({ policies: [policyRef(0)] }),
    cancelLeft: () => undefined,
    promote: () => ({ number: 1 }),
    writeReport: () => ({ html: artifact('report.html'), json: artifact('report.json') }),
  }
}
