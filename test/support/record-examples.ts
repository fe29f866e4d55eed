/** One whole record of every kind: `record` has the required fields, `more` those that a record may lack. */
import type { Alarm, AlarmCounts, AlarmSent, AlarmsSince } from '../../src/contracts/alarms.types.ts'
import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import type { CodeRecord, DurationsRecord, JobTimeRecord, LineageRecord } from '../../src/contracts/costs.types.ts'
import type {
  ActionRecord,
  CaptureRecord,
  DispositionRecord,
  EpisodeRecord,
  EpisodeSpec,
  EpisodeStart,
  GradingAttemptRecord,
  GradingTimeOutRecord,
  ObservationRecord,
  PlacementRecord,
  SandboxState,
  SamplingOptions,
  TreeRecord,
  VerdictRecord,
} from '../../src/contracts/episodes.types.ts'
import type { EvaluationRecord } from '../../src/contracts/evaluations.types.ts'
import type { GatedSuite, GateRecord, GateReport, ImageRecord, TaskGate } from '../../src/contracts/gates.types.ts'
import type { GradingPlan, GradingRecord, PredictionSet, UngradedRecord } from '../../src/contracts/grading.types.ts'
import {
  alarmKeys,
  episodeId,
  episodeKeys,
  gateKeys,
  gradingKeys,
  nightKeys,
  policyKeys,
  predictionKeys,
  recipeKeys,
  removalKeys,
  runKeys,
  suiteKeys,
} from '../../src/contracts/keys.ts'
import type { NightRecord, NightVerdict } from '../../src/contracts/nights.types.ts'
import type { EnginesRecord, PolicyRef } from '../../src/contracts/policy.types.ts'
import type { Recipe } from '../../src/contracts/recipe.types.ts'
import type {
  IterationPlan,
  PlayerRecord,
  PushedRecipe,
  RefillPlan,
  RemovalBegun,
  RemovalSign,
  RemovalTakenUp,
  RunClaim,
  StoredRecipe,
} from '../../src/contracts/run-records.types.ts'
import type {
  ImportedSuite,
  MadeSuite,
  OverlapRecord,
  PinnedFilesRecord,
  PinnedSplit,
  RowRecord,
  SuiteOrigin,
} from '../../src/contracts/suites.types.ts'
import type { SuiteManifest, SuiteSource, Task } from '../../src/contracts/tasks.types.ts'
import type { MeasuredRecord, TrackedId } from '../../src/contracts/trackers.types.ts'
import type { JobPlanRecord, KeptPolicies, Promotion, TrainingRecord } from '../../src/contracts/training.types.ts'
import type { StageScore } from '../../src/contracts/workflows.types.ts'
import type { Ledger } from '../../src/domain/ledger/ledger.ts'
import type { PlateauRecord } from '../../src/domain/rewards/plateau.ts'
import type { StagePool } from '../../src/domain/rewards/stage-rules.ts'
import type { PromotionDecision } from '../../src/domain/statistics/judge-night.ts'
import type { WeightsRecord } from '../../src/adapters/artifacts/weights/stored-tree.ts'
import { kindOf, misfitOf } from '../../src/adapters/artifacts/store-rules.ts'
import { trainingSettings } from './training-records.ts'

interface Example {
  key: string
  record: object
  more: object
}

type RequiredFields<T> = { [K in keyof T as object extends Pick<T, K> ? never : K]: T[K] }
type FurtherFields<T> = { [K in keyof T as object extends Pick<T, K> ? K : never]-?: Exclude<T[K], undefined> }

function example<T extends object>(
  key: string,
  record: RequiredFields<T>,
  ...[more]: object extends FurtherFields<T> ? [] | [FurtherFields<T>] : [FurtherFields<T>]
): Example {
  return { key, record, more: more ?? {} }
}

const RUN = 'run'
const place = { run: RUN, stage: 'dapo-1', iteration: 1, taskId: 'owner__thing-1', index: 0 }
const EPISODE = episodeId(place)
const SHA = 'a'.repeat(64)
const AT = '2026-11-20T10:00:00.000Z'
const AT_MS = Date.parse(AT)

const sampling: SamplingOptions = {
  temperature: 1,
  topP: 1,
  topK: -1,
  minP: 0,
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
}
const limits = {
  maxTurns: 6,
  contextTokens: 640,
  maxTokensPerTurn: 56,
  commandTimeoutMs: 30_000,
  episodeTimeoutMs: 300_000,
  turnsPerStep: 8,
}
const state: SandboxState = {
  cwd: '/testbed',
  environment: '',
  umask: '0022',
  openFile: null,
  windowTop: 0,
  submitted: false,
}
const usage = { promptTokens: 3, cachedTokens: null, completionTokens: 2 }
const shortAudit = { outcome: 'agrees' as const, reasons: [], detail: null }
const audit = { ...shortAudit, auditMs: 5 }
const policy: PolicyRef = {
  version: 'v000000-aaaaaaaa',
  uri: 'file:///policies/v000000-aaaaaaaa',
  manifestSha256: SHA,
  globalStep: 0,
  checkpointUri: null,
  checkpointSha256: null,
}
const score: RequiredFields<StageScore> = {
  name: 'base',
  policy: policy.version,
  passAt1: 0.5,
  sem: 0.1,
  tasks: 2,
  attempts: 2,
}
const mean = { mean: 2, sem: 0.5, tasks: 2 }
const interval = { low: 0.1, high: 0.9 }
const source: SuiteSource = {
  kind: 'synthetic',
  family: 'one-wrong-line',
  seed: 1,
  split: 'train',
  count: 2,
  offset: 0,
}
const origin: SuiteOrigin = {
  schema: 'longhaul.suite-origin/1',
  dataset: 'one-wrong-line',
  revision: '1',
  split: 'eval',
  files: [{ name: 'rows.jsonl', sha256: SHA }],
  filters: [{ filter: 'files<=2', kept: 2 }],
}
const tasks = { common: 2, onlyBefore: 0, onlyAfter: 0, otherRows: 0 }
const side = { run: 'before', name: 'base', policy: policy.version }
const judgement = {
  outcome: 'not-worse' as const,
  statement: 'no loss',
  difference: { mean: 0, low: -0.1, high: 0.1 },
  tasks,
}
const judged: NightVerdict = { against: 'last', before: side, ...judgement }
const spread = { p50: 10, max: 20 }
const taskGate: RequiredFields<TaskGate> = {
  schema: 'longhaul.task-gate/1',
  run: RUN,
  taskId: place.taskId,
  rowHash: SHA,
  profile: 'fork-4.0.3',
  image: 'image',
  imageDigest: null,
  registryDigest: null,
  outcome: 'passed',
  reason: null,
  failure: null,
  gradings: { gold: 1, empty: 1, made: 2 },
  identity: 'id',
  regraded: 0,
  flips: [{ check: 'gold', test: 'test_a', statuses: { PASSED: 1 } }],
  failing: [],
  exceptions: {},
  hiddenNames: [],
  gradeMs: spread,
  peakMemoryBytes: 1_000,
}
const gradingScore = { mean: 0.5, sem: 0.1, interval, tasks: 2, attempts: 2 }
const gradedSuite = { hash: SHA, name: 'suite' }
const gradingSource: GradingPlan['source'] = { kind: 'run', run: 'other', stages: ['eval-base'] }
const instance = {
  taskId: place.taskId,
  model: 'model',
  profile: 'fork-4.0.3' as const,
  episode: null,
  before: { kind: 'resolved' as const, reason: null },
}
const artifact = { key: `predictions/patches/${SHA}.diff`, sha256: SHA, bytes: 3 }
const training = trainingSettings()
const optim = { ...training.rft.optim, lr: 1e-4, endLr: 0 }

export const RECIPE: Recipe = {
  ...training,
  seed: 1,
  data: {
    train: source,
    heldOut: { ...source, split: 'eval' },
    filters: { hiddenNames: 'keep', maxFiles: null, maxLines: null, dropLlmScore: null, flakyTrials: null },
    overlap: 'fail',
    gate: { repeats: 1, refused: 'fail', width: null },
  },
  scaffold: {
    profile: 'demo',
    history: 'full',
    commandsPerTurn: 1,
    submit: { capture: 'unstaged' },
    limits: { commandTimeoutS: 30, maxTokensPerTurn: 56 },
  },
  sandbox: {
    request: { cpu: 0.125, memGiB: 0.125 },
    limit: { cpu: 1, memGiB: 0.5, pids: 128, diskGiB: null },
    network: 'none',
    allow: [],
    runtime: null,
  },
  rollout: { sampling, maxOpenEpisodes: 4, turnsPerStep: 8, episodeTimeoutS: 300, maxReplacements: 0 },
  rft: { ...training.rft, context: 640, optim, epochs: 1 },
  reinforce: {
    ...training.reinforce,
    optim,
    stages: training.reinforce.stages.map((stage) => ({ ...stage, context: 640, problemsPerIteration: 3, batch: 6 })),
  },
  evaluate: { ...training.evaluate, context: 640, policy: 'promoted' },
  grading: { unauditedRewards: 'refuse' },
  promotion: { gate: 'always', margin: 0.02, confidence: 0.95, minGraded: 0.95 },
  policyServer: {
    kind: 'embedded',
    url: null,
    replicas: [],
    launch: null,
    publish: null,
    leaseS: 3_600,
    patienceS: 900,
    chat: null,
  },
  trainer: { ...training.trainer, maxTokensPerMicro: 8_192, timeoutS: 300, stallS: 120 },
  trackers: [{ kind: 'tensorboard', directory: '/tb' }],
}

const verdict: RequiredFields<VerdictRecord> = {
  schema: 'longhaul.verdict/1',
  episode: EPISODE,
  taskId: place.taskId,
  kind: 'resolved',
  reason: null,
  profile: 'fork-4.0.3',
  from: 'container',
  patchSha256: SHA,
  failToPass: { passed: 1, total: 1 },
  passToPass: { passed: 2, total: 2 },
  gradeMs: 100,
  image: 'image',
  signs: ['test-files'],
}
const moreOfVerdict: FurtherFields<VerdictRecord> = {
  subset: true,
  suite: { hash: SHA, dataset: 'owner/name', revision: null },
  provenance: {
    upstream: 'fork 4.0.3',
    profileRevision: 1,
    rowHash: SHA,
    imageReference: 'image',
    machine: {
      engine: '20.10',
      cgroupVersion: 2,
      cpuset: '0',
      memoryMiB: 512,
      startedAtMs: AT_MS,
      endedAtMs: AT_MS + 100,
    },
    testTimeoutMs: 1_000,
    exitCode: 0,
    logSha256: SHA,
    deviations: [],
  },
  audit,
}
const grading = { run: RUN, taskId: place.taskId, profile: 'fork-4.0.3', patchSha256: SHA }
const ungraded: UngradedRecord = { schema: 'longhaul.ungraded/1', run: RUN, taskId: place.taskId, reason: 'infra' }
const timeOut: GradingTimeOutRecord = {
  schema: 'longhaul.grading-time-out/1',
  episode: EPISODE,
  attempt: 1,
  hostId: 'host',
  gradeMs: 100,
  atMs: AT_MS,
}
const plan: IterationPlan = {
  schema: 'longhaul.plan/1',
  run: RUN,
  stage: place.stage,
  iteration: 1,
  suite: SHA,
  groupSize: 4,
  taskIds: [place.taskId],
}
const night: NightRecord = {
  schema: 'longhaul.night/1',
  series: 'nightly',
  role: 'main',
  verdicts: [judged],
  common: [place.taskId],
  night: {
    series: 'nightly',
    run: RUN,
    name: 'nightly',
    at: AT,
    policy: policy.version,
    split: 'eval',
    revision: null,
    tasks: 2,
    attempts: 2,
    passAt1: 0.5,
    interval,
    lost: 0,
    turns: 3,
    sampledTokens: 10,
    cost: { mean: 0.1, currency: 'EUR' },
    outcomes: [{ against: 'last', outcome: 'not-worse' }],
  },
}

export const RECORD_EXAMPLES: readonly Example[] = [
  example<ActionRecord>(
    episodeKeys.action(EPISODE, 0),
    {
      schema: 'longhaul.action/1',
      episode: EPISODE,
      turn: 0,
      promptDelta: [1, 2],
      ids: [3, 4],
      logprobs: [-0.5, -1],
      text: 'ls',
      finishReason: 'stop',
      policy: policy.version,
      seed: 7,
      formatError: null,
      command: 'ls',
      token: 'token',
      sampledAtMs: AT_MS,
      sampleMs: 10,
    },
    { chat: { model: null, ending: 'stop', usage } },
  ),
  example<ObservationRecord>(episodeKeys.observation(EPISODE, 0), {
    schema: 'longhaul.observation/1',
    episode: EPISODE,
    turn: 0,
    text: 'a.py',
    execution: {
      exitCode: 0,
      reason: 'exit',
      outputBytes: 5,
      wallMs: 3,
      oomKilled: false,
      network: { opened: 1, refused: 0, bytes: 10, refusedHosts: [] },
    },
    state,
    observedAtMs: AT_MS + 20,
  }),
  example<TreeRecord>(episodeKeys.tree(EPISODE, 0), {
    schema: 'longhaul.tree/1',
    episode: EPISODE,
    turn: 0,
    treeSha256: SHA,
  }),
  example<EpisodeStart>(
    episodeKeys.start(EPISODE),
    {
      schema: 'longhaul.episode-start/1',
      episode: EPISODE,
      state,
      promptIds: [1, 2],
      trainingPromptIds: null,
      startedAtMs: AT_MS,
    },
    { messages: [{ role: 'system', content: 'repair it' }] },
  ),
  example<EpisodeSpec>(
    episodeKeys.spec(EPISODE),
    {
      schema: 'longhaul.episode/1',
      episode: EPISODE,
      ...place,
      recipeSeed: 1,
      suiteHash: SHA,
      policy: policy.version,
      scaffold: 'demo',
      demonstration: false,
      sampling,
      limits,
      capture: 'unstaged',
    },
    { chatFormat: 'chatml' },
  ),
  example<PlacementRecord>(
    episodeKeys.placement(EPISODE, 1),
    {
      schema: 'longhaul.placement/1',
      episode: EPISODE,
      placement: 1,
      ownerRun: 'owner',
      hostId: 'host',
      image: 'image',
      placedAtMs: AT_MS,
    },
    { requested: 1 },
  ),
  example<DispositionRecord>(episodeKeys.disposition(EPISODE), {
    schema: 'longhaul.disposition/1',
    episode: EPISODE,
    disposition: 'submitted',
    turns: 1,
  }),
  example<CaptureRecord>(episodeKeys.capture(EPISODE), {
    schema: 'longhaul.capture/1',
    episode: EPISODE,
    mode: 'unstaged',
    lostFiles: 0,
    failure: null,
    sha256OfPatch: SHA,
    bytes: 3,
  }),
  example<VerdictRecord>(episodeKeys.verdict(EPISODE), verdict, moreOfVerdict),
  example<GradingAttemptRecord>(episodeKeys.gradingAttempt(EPISODE, 1), {
    schema: 'longhaul.grading-attempt/1',
    episode: EPISODE,
    attempt: 1,
    hostId: 'host',
    failure: 'Grading.Failed',
    message: 'gone',
    atMs: AT_MS,
  }),
  example<GradingTimeOutRecord>(episodeKeys.grading(EPISODE, 'fork-4.0.3', 'timed-out.json'), timeOut),
  example<GradingTimeOutRecord>(gradingKeys.file({ ...grading, episode: EPISODE }, 'timed-out.json'), timeOut),
  example<GradingTimeOutRecord>(gradingKeys.file({ ...grading, episode: null }, 'timed-out.json'), timeOut),
  example<EpisodeRecord>(
    episodeKeys.result(EPISODE),
    {
      schema: 'longhaul.episode-result/1',
      episode: EPISODE,
      ...place,
      policy: policy.version,
      disposition: 'submitted',
      failure: null,
      verdict: 'resolved',
      verdictReason: null,
      suspectedHack: false,
      signs: [],
      turns: 1,
      formatErrorTurns: 0,
      sampledTokens: 2,
      contextTokens: 4,
      patchBytes: 3,
    },
    { audit: shortAudit, usage },
  ),
  example<VerdictRecord>(gradingKeys.file({ ...grading, episode: EPISODE }, 'verdict.json'), verdict, moreOfVerdict),
  example<UngradedRecord>(gradingKeys.file({ ...grading, episode: EPISODE }, 'ungraded.json'), ungraded),
  example<VerdictRecord>(gradingKeys.file({ ...grading, episode: null }, 'verdict.json'), verdict, moreOfVerdict),
  example<UngradedRecord>(gradingKeys.file({ ...grading, episode: null }, 'ungraded.json'), ungraded),
  example<GradingPlan>(gradingKeys.plan(RUN), {
    schema: 'longhaul.grading-plan/1',
    run: RUN,
    source: gradingSource,
    profile: null,
    suite: gradedSuite,
    instances: [{ ...instance, suite: SHA, patch: artifact, fault: null }],
    runnable: 1,
  }),
  example<GradingRecord>(gradingKeys.result(RUN), {
    schema: 'longhaul.grading/1',
    run: RUN,
    source: gradingSource,
    profile: null,
    suite: gradedSuite,
    counts: { resolved: 1, unresolved: 0, couldNotGrade: 0, empty: 0, incomplete: 0 },
    graded: gradingScore,
    official: gradingScore,
    instances: [{ ...instance, kind: 'resolved', reason: null }],
  }),
  example<PredictionSet>(predictionKeys.set(SHA), {
    schema: 'longhaul.predictions/1',
    hash: SHA,
    format: 'swebench',
    predictions: [{ taskId: place.taskId, model: 'model', patch: artifact, fault: null }],
    duplicates: [],
  }),
  example<RunClaim>(
    runKeys.claim(RUN),
    {
      schema: 'longhaul.run/1',
      run: RUN,
      kind: 'train',
      recipe: 'test',
      recipeHash: SHA,
      workflowId: 'train/run',
      firstExecutionRunId: 'execution',
    },
    { startedAt: AT, evaluation: 'nightly', policy: 'base' },
  ),
  example<StoredRecipe>(runKeys.recipe(RUN), { schema: 'longhaul.recipe/1', hash: SHA, recipe: RECIPE }),
  example<PolicyRef>(runKeys.policy(RUN, 'base'), policy),
  example<PinnedSplit>(runKeys.pinnedSplit(RUN, 'heldOut'), {
    schema: 'longhaul.pinned-split/1',
    dataset: 'owner/name',
    revision: SHA,
    split: '2025_05',
    passedOver: ['2025_06'],
  }),
  example<IterationPlan>(runKeys.plan(RUN, place.stage, 1), plan),
  example<RefillPlan>(runKeys.refill(RUN, place.stage, 1, 1), { ...plan, round: 1, kept: 1, withoutSpread: 1 }),
  example<OverlapRecord>(runKeys.overlap(RUN), {
    schema: 'longhaul.overlap/1',
    run: RUN,
    train: SHA,
    evaluated: [SHA],
    tasks: 2,
    overlaps: [{ taskId: place.taskId, suite: SHA, as: place.taskId, same: ['id'] }],
    excluded: [],
  }),
  example<StagePool>(runKeys.pool(RUN, place.stage), {
    schema: 'longhaul.pool/1',
    run: RUN,
    stage: place.stage,
    over: 'rft',
    kept: [place.taskId],
    dropped: [{ taskId: 'owner__thing-2', reason: 'unseen' }],
  }),
  example<PlateauRecord>(runKeys.plateau(RUN, place.stage, 1), {
    schema: 'longhaul.plateau/1',
    run: RUN,
    stage: place.stage,
    iteration: 1,
    rule: { metric: 'heldOut.pass1', window: 2, minGain: 0.01 },
    scores: [{ iteration: 1, passAt1: 0.5 }],
    plateau: false,
    gain: null,
    last: 1,
    before: 0,
  }),
  example<JobPlanRecord>(`${runKeys.batch(RUN, place.stage, 1, 1)}/plan.json`, {
    schema: 'longhaul.job-plan/1',
    totalSteps: 2,
  }),
  example<Ledger>(runKeys.ledger(RUN, place.stage, 1), {
    schema: 'longhaul.ledger/1',
    run: RUN,
    stage: place.stage,
    iteration: 1,
    entries: [
      { episode: EPISODE, fate: 'trained', batch: 'batch' },
      { episode: EPISODE, fate: 'dropped', because: 'std', unpaid: 'unaudited' },
      { episode: EPISODE, fate: 'excluded', because: 'infra' },
      { episode: EPISODE, fate: 'evaluated', in: 'base' },
    ],
    totals: { episodes: 4, trained: 1, evaluated: 1, dropped: { std: 1 }, excluded: { infra: 1 }, unpaid: {} },
  }),
  example<TrainingRecord>(runKeys.training(RUN, place.stage, 1, 1), {
    schema: 'longhaul.training/1',
    stage: place.stage,
    iteration: 1,
    slice: 1,
    policy: policy.version,
    steps: [{ step: 1, loss: 0.5 }],
    alarms: [{ step: 1, metric: 'k1', value: null, limit: 0.1, side: 'above' }],
  }),
  example<EnginesRecord>(runKeys.engines(RUN), {
    schema: 'longhaul.engines/1',
    host: 'host',
    urls: ['http://127.0.0.1:1'],
  }),
  example<JobTimeRecord>(runKeys.jobTime(RUN, place.stage, 1, 1), {
    schema: 'longhaul.job-time/1',
    stage: place.stage,
    iteration: 1,
    slice: 1,
    device: 'cpu',
    ranks: 1,
    attempts: [{ fence: 1, startedAtMs: AT_MS, endedAtMs: AT_MS + 100, end: 'ok' }],
  }),
  example<CodeRecord>(runKeys.code(RUN, 1), {
    schema: 'longhaul.code/1',
    version: '0.1.0',
    revision: null,
    filesSha256: SHA,
    node: 'v24',
  }),
  example<PlayerRecord>(runKeys.player(RUN, 1), {
    schema: 'longhaul.player/1',
    run: RUN,
    workflowId: 'train/run',
    runId: 'execution',
  }),
  example<NightRecord>(runKeys.night(RUN, 'nightly'), night),
  example<NightRecord>(nightKeys.night({ series: 'nightly', at: AT, run: RUN, name: 'nightly' }), night),
  example<KeptPolicies>(runKeys.keptPolicies(RUN), { schema: 'longhaul.kept-policies/1', policies: [policy] }),
  example<PromotionDecision>(runKeys.promotion(RUN), {
    schema: 'longhaul.promotion-decision/1',
    run: RUN,
    policy: policy.version,
    gate: 'notWorse',
    promoted: true,
    against: side,
    judged: { ...judgement, common: [place.taskId] },
    why: 'not worse',
  }),
  example<EvaluationRecord>(
    runKeys.evaluation(RUN, 'base'),
    {
      schema: 'longhaul.evaluation/2',
      run: RUN,
      name: 'base',
      stage: 'eval-base',
      suite: SHA,
      score: { ...score, audited: { passAt1: 0.5, sem: 0.1 } },
      semOver: 'tasks',
      taskSem: 0.1,
      interval,
      bootstrap: { ...interval, draws: 100, seed: 1 },
      official: { passAt1: 0.5, sem: 0.1, interval, tasks: 2, attempts: 2 },
      attempts: 1,
      passAtK: [{ k: 1, any: mean, all: mean }],
      tasks: [
        {
          taskId: place.taskId,
          repo: 'owner/thing',
          rowHash: SHA,
          createdAt: null,
          outcomes: [1],
          lost: 0,
          replaced: 0,
          audited: [1],
          turns: [2],
          sampledTokens: [10],
          wallSeconds: [2.5],
          promptTokens: [3],
          cachedTokens: [null],
          cost: [0.1],
        },
      ],
      dispositions: { submitted: 1 },
      verdicts: { resolved: 1 },
      reasons: {},
      infra: 0,
      suspectedHacks: 0,
      couldNotGrade: 0,
      turns: mean,
      sampledTokens: mean,
      wallSeconds: mean,
      totals: {
        turns: 2,
        formatErrorTurns: 0,
        sampledTokens: 10,
        wallSeconds: 2.5,
        gradeSeconds: 0.1,
        promptTokens: 3,
        cachedTokens: 0,
      },
      gradedByGate: 0,
      conditions: { scaffold: 'demo', demonstration: false, sampling, limits, gradingProfiles: ['fork-4.0.3'] },
    },
    {
      origin,
      audited: {
        passAt1: 0.5,
        sem: 0.1,
        interval,
        tasks: 2,
        attempts: 2,
        resolved: 1,
        paid: 1,
        unaudited: 0,
        differences: [
          { taskId: place.taskId, episode: EPISODE, because: 'audit-void', reasons: ['too-slow'], detail: null },
        ],
      },
      promptTokens: mean,
      cachedTokens: mean,
      cost: {
        prices: {
          currency: 'EUR',
          perMillionTokens: { input: 1, cachedInput: null, output: 2 },
          machines: [{ name: 'gpu', count: 1, perHour: 2 }],
        },
        attempt: mean,
        graded: 1,
        lost: 0,
        unknown: 0,
      },
    },
  ),
  example<DurationsRecord>(runKeys.durations(RUN, 1), {
    schema: 'longhaul.durations/1',
    durations: { total: 12.5 },
  }),
  example<MeasuredRecord>(runKeys.measured(RUN, 1), {
    schema: 'longhaul.measured/1',
    record: runKeys.training(RUN, place.stage, 1, 1),
    atMs: AT_MS,
  }),
  example<TrackedId>(runKeys.tracked(RUN, 'mlflow'), { schema: 'longhaul.tracked/1', tracker: 'mlflow', id: 'id' }),
  example<GateRecord>(
    gateKeys.grading(place.taskId, 'id', 'gold', 1),
    {
      schema: 'longhaul.gate/2',
      taskId: place.taskId,
      run: RUN,
      check: 'gold',
      repeat: 1,
      verdict: 'resolved',
      reason: null,
      gradings: 1,
      gradeMs: 100,
      peakMemoryBytes: 1_000,
      imageDigest: 'sha256:a',
      profile: 'fork-4.0.3',
      notPassed: { test_a: 'MISSING' },
      exceptions: { KeyError: 1 },
      missedNames: [],
      logKey: 'log',
    },
    { audit },
  ),
  example<ImageRecord>(gateKeys.image('id'), {
    schema: 'longhaul.image-check/1',
    image: 'image',
    digest: 'sha256:a',
    repoDir: '/testbed',
    commit: 'c',
    head: 'c',
  }),
  example<TaskGate>(gateKeys.task(RUN, SHA, place.taskId), taskGate, { audits: { agrees: 1 } }),
  example<GatedSuite>(gateKeys.gated(RUN, SHA), {
    schema: 'longhaul.gated-suite/2',
    suite: SHA,
    repeats: 1,
    admitted: [place.taskId],
    refused: [],
    digests: {},
  }),
  example<GateReport>(
    gateKeys.report(RUN, SHA, 'report.json'),
    {
      schema: 'longhaul.gate-report/1',
      run: RUN,
      suite: SHA,
      name: 'suite',
      repeats: 1,
      tasks: 1,
      counts: {
        passed: 1,
        'gold-fails': 0,
        'empty-resolves': 0,
        flaky: 0,
        'not-auditable': 0,
        'could-not-gate': 0,
      },
      gradings: { total: 2, made: 2, reused: 0 },
      gradeMs: spread,
      peakMemoryBytes: null,
      withoutMemory: 1,
      gates: [taskGate],
    },
    { origin },
  ),
  example<SuiteManifest>(suiteKeys.manifest(SHA), { hash: SHA, name: 'suite', source, taskIds: [place.taskId] }),
  example<SuiteOrigin>(suiteKeys.origin(SHA), origin),
  example<ImportedSuite>(suiteKeys.imported(SHA), {
    schema: 'longhaul.imported-suite/1',
    hash: SHA,
    source: { kind: 'file', path: 'rows.jsonl' },
    files: [{ path: 'rows.jsonl', bytes: 3, id: null }],
    counts: { rows: 2, refused: 1, accepted: 1, kept: 1 },
    filters: [{ filter: { kind: 'max-files', max: 2 }, kept: 1, dropped: 0, lacking: 0 }],
    profiles: { 'fork-4.0.3': 1 },
    unsupported: 0,
    refused: [{ row: 2, at: 'line 2', taskId: null, column: 'patch', reason: 'is no text' }],
    tasks: [{ taskId: place.taskId, rowHash: SHA }],
  }),
  example<RowRecord>(suiteKeys.row(SHA, place.taskId), { schema: 'longhaul.row/1', row: {} }),
  example<MadeSuite>(suiteKeys.madeBy(SHA), { schema: 'longhaul.made-suite/1', suite: SHA }),
  example<PinnedFilesRecord>(suiteKeys.pinnedFiles(place.taskId, SHA), {
    schema: 'longhaul.pinned-files/1',
    taskId: place.taskId,
    rowHash: SHA,
    files: [{ path: 'a.bin', url: 'https://example.org/a.bin', sha256: SHA, bytes: 3 }],
  }),
  example<Task>(
    suiteKeys.task(SHA, place.taskId),
    {
      taskId: place.taskId,
      repo: 'owner/thing',
      baseCommit: 'c',
      statement: 'It fails.',
      goldPatch: 'diff',
      testPatch: 'diff',
      failToPass: ['test_a'],
      passToPass: ['test_b'],
      gradingProfile: 'fork-4.0.3',
      installConfig: { install: null, testCmd: 'pytest', logParser: 'parse_log_pytest' },
      image: 'image',
      repoDir: '/testbed',
      synthetic: null,
      createdAt: null,
      rowHash: SHA,
    },
    {
      harness: {
        version: null,
        evalScript: null,
        evalType: null,
        language: null,
        assets: [{ path: 'a.bin', url: null, sha256: SHA }],
      },
      deviations: ['list-command'],
    },
  ),
  example<PolicyRef>(policyKeys.ref(policy.version), policy),
  example<WeightsRecord>(policyKeys.weights(policy.version), {
    schema: 'longhaul.weights/1',
    policy,
    trees: { policy: [{ path: 'a', bytes: 3, blobs: [SHA] }], checkpoint: null },
  }),
  example<LineageRecord>(policyKeys.lineage(policy.version), {
    schema: 'longhaul.lineage/1',
    policy: { version: policy.version, manifestSha256: SHA },
    parent: { version: 'v000000-bbbbbbbb', manifestSha256: null },
    by: { run: RUN, stage: place.stage, iteration: 1, slice: 1 },
    jobKey: 'job',
    batchSha256: SHA,
  }),
  example<Promotion>(policyKeys.promotion(1), { schema: 'longhaul.promotion/1', number: 1, run: RUN, policy, score }),
  example<RemovalBegun>(
    removalKeys.begun(RUN),
    { schema: 'longhaul.removal/1', run: RUN },
    { id: 'id', begunAtMs: AT_MS },
  ),
  example<RemovalTakenUp>(removalKeys.takenUp(RUN, 1), { id: 'id', atMs: AT_MS }),
  example<RemovalSign>(removalKeys.sign(RUN, 1, AT_MS), { run: RUN }),
  example<RemovalSign>(removalKeys.givenUp(RUN, 1), { run: RUN }),
  example<RemovalSign>(removalKeys.removed(RUN, AT_MS), { run: RUN }),
  example<Alarm>(alarmKeys.alarm('id'), {
    schema: 'longhaul.alarm/1',
    id: 'id',
    kind: 'failure',
    title: 'failed',
    text: 'It failed.',
    run: RUN,
    series: null,
    workflowId: null,
    link: null,
    at: AT,
  }),
  example<AlarmSent>(alarmKeys.sent('id'), { schema: 'longhaul.alarm-sent/1', id: 'id', at: AT }),
  example<AlarmCounts>(alarmKeys.firstCounts('id'), {
    schema: 'longhaul.alarm-counts/1',
    schedule: 'nightly',
    skippedOverlap: 0,
    missedCatchup: 0,
  }),
  example<AlarmsSince>(alarmKeys.since, { schema: 'longhaul.alarms-since/1', at: AT }),
  example<PushedRecipe>(recipeKeys.pushed('test'), {
    schema: 'longhaul.pushed-recipe/1',
    name: 'test',
    text: 'seed: 1',
  }),
]

/**
 * Stores a record of which a test says only what matters: the rest is that of the example. Coordinates come from the key where a
 * record has them.
 */
export function putPart(
  store: Pick<ArtifactStore, 'putRecord'>,
  key: string,
  part: object,
): ReturnType<ArtifactStore['putRecord']> {
  return store.putRecord(key, wholeRecord(key, part))
}

/** The record as `putPart` stores it. */
export function wholeRecord<T extends object>(key: string, part: T): T {
  const kind = kindOf(key)
  if (kind === null || misfitOf(kind, part) === null) return part
  const found = RECORD_EXAMPLES.find((one) => kindOf(one.key) === kind)
  if (found === undefined) return part
  const asked = Object.entries(found.more).filter(([name]) => name in part)
  const whole = { ...found.record, ...Object.fromEntries(asked), ...identityOf(key), ...partsThatBelongTogether(part) }
  return fill(whole, part) as T
}

function partsThatBelongTogether(part: object): object {
  if ('recipe' in part && isObject(part.recipe)) {
    // Readers treat a recipe without these as one of an earlier version.
    const { grading: _grading, promotion: _promotion, trackers: _trackers, ...recipe } = RECIPE
    return { recipe }
  }
  return 'ids' in part && Array.isArray(part.ids) ? { logprobs: part.ids.map(() => -1) } : {}
}

function identityOf(key: string): object {
  const [, ofRun, ofStage, number] = /^runs\/([^/]+)\/([^/]+)\/iterations\/(\d+)\//.exec(key) ?? []
  if (ofRun !== undefined) return { run: ofRun, stage: ofStage, iteration: Number(number) }
  const [, owner] = /^runs\/([^/]+)\/(?:run|overlap|promotion|evaluations\/[^/]+)\.json$/.exec(key) ?? []
  if (owner !== undefined) return { run: owner }
  const [, task] = /^suites\/[^/]+\/tasks\/([^/]+)\.json$/.exec(key) ?? []
  if (task !== undefined) return { taskId: task }
  const [, run, stage, iteration, taskId, index] =
    /^episodes\/([^/]+)\/([^/]+)\/(\d+)\/([^/]+)\/(\d+)\//.exec(key) ?? []
  if (run === undefined) return {}
  const turn = /\/(\d+)\.(?:action|observation|tree)\.json$/.exec(key)?.[1]
  return {
    episode: `${run}/${stage}/${iteration}/${taskId}/${index}`,
    ...(key.endsWith('/result.json') || key.endsWith('/spec.json')
      ? { run, stage, iteration: Number(iteration), index: Number(index) }
      : {}),
    ...(/\/(?:result|spec|verdict)\.json$/.test(key) ? { taskId } : {}),
    ...(turn === undefined ? {} : { turn: Number(turn) }),
  }
}

/** Fields whose keys are data: nothing is added to them. */
const MAPS = new Set(['dropped', 'excluded', 'unpaid', 'dispositions', 'verdicts', 'reasons', 'digests', 'row'])

function fill(whole: unknown, part: unknown): unknown {
  if (part === undefined) return whole
  if (!isObject(whole) || !isObject(part)) return part
  const filled: Record<string, unknown> = { ...whole }
  for (const [name, value] of Object.entries(part)) {
    const old = whole[name]
    const isOtherVariant = isObject(old) && isObject(value) && 'kind' in value && old['kind'] !== value['kind']
    filled[name] = isOtherVariant || MAPS.has(name) ? value : fill(old, value)
  }
  return filled
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
