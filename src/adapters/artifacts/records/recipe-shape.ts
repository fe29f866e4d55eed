/**
 * A stored recipe. `recipe.schema.ts` judges what users write; here only types are checked, because recipes of earlier versions are
 * read with the rules of their time. Keys that came after the first version may be absent.
 */
import type {
  ChatRecipe,
  CompareRecipe,
  DataRecipe,
  DockerLauncherRecipe,
  EngineLaunchRecipe,
  EvaluateRecipe,
  ExpertRecipe,
  GradingRecipe,
  KubernetesLauncherRecipe,
  LossRecipe,
  ModelRecipe,
  OptimizerRecipe,
  PlateauRecipe,
  PolicyServerRecipe,
  PromotionRecipe,
  Recipe,
  ReinforceRecipe,
  ReinforceStageRecipe,
  RftRecipe,
  RolloutRecipe,
  SandboxRecipe,
  ScaffoldRecipe,
  SlurmLauncherRecipe,
  StepRewardRecipe,
  TrainerRecipe,
} from '../../../contracts/recipe.types.ts'
import type { StoredRecipe } from '../../../contracts/run-records.types.ts'
import type { TrackerRecipe } from '../../../contracts/trackers.types.ts'
import { chatFormat, sampling } from './episode-shapes.ts'
import { prices } from './run-shapes.ts'
import {
  absentable,
  amount,
  count,
  either,
  flag,
  integer,
  listOf,
  mapOf,
  nullable,
  number,
  object,
  oneOf,
  pairOf,
  size,
  text,
  variants,
} from './shape.ts'
import { suiteSource } from './suite-shapes.ts'

const model = object<ModelRecipe>({
  base: text,
  chatFormat: absentable(chatFormat),
  train: absentable(oneOf('full', 'lora')),
  lora: absentable(nullable(object<NonNullable<ModelRecipe['lora']>>({ rank: count, alpha: number }))),
  cutoff: absentable(nullable(text)),
  rope: absentable(
    nullable(object<NonNullable<ModelRecipe['rope']>>({ type: oneOf('yarn'), factor: number, originalMax: count })),
  ),
})

const data = object<DataRecipe>({
  train: suiteSource,
  heldOut: suiteSource,
  filters: object<DataRecipe['filters']>({
    hiddenNames: oneOf('drop', 'keep'),
    maxFiles: nullable(count),
    maxLines: nullable(count),
    dropLlmScore: nullable(number),
    flakyTrials: nullable(count),
  }),
  overlap: absentable(oneOf('fail', 'exclude')),
  gate: object<DataRecipe['gate']>({
    repeats: size,
    refused: oneOf('fail', 'exclude'),
    width: absentable(nullable(count)),
  }),
})

const scaffold = object<ScaffoldRecipe>({
  profile: text,
  history: oneOf('full'),
  commandsPerTurn: oneOf(1),
  submit: object<ScaffoldRecipe['submit']>({ capture: oneOf('unstaged', 'all') }),
  limits: object<ScaffoldRecipe['limits']>({ commandTimeoutS: amount, maxTokensPerTurn: count }),
})

const sandbox = object<SandboxRecipe>({
  request: object<SandboxRecipe['request']>({ cpu: amount, memGiB: amount }),
  limit: object<SandboxRecipe['limit']>({
    cpu: amount,
    memGiB: amount,
    pids: count,
    diskGiB: absentable(nullable(amount)),
  }),
  network: oneOf('none', 'proxy'),
  allow: absentable(listOf(text)),
  runtime: absentable(nullable(text)),
})

const rollout = object<RolloutRecipe>({
  sampling,
  maxOpenEpisodes: size,
  turnsPerStep: size,
  episodeTimeoutS: amount,
  maxReplacements: size,
})

const optimizer = object<OptimizerRecipe>({
  name: oneOf('adamw'),
  lr: number,
  betas: pairOf(number),
  eps: number,
  weightDecay: number,
  gradClip: number,
  schedule: oneOf('constant', 'linear', 'cosine'),
  warmupSteps: size,
  endLr: number,
  states: absentable(oneOf('float32', 'bfloat16')),
})

const binary = oneOf(0, 1)

const rft = object<RftRecipe>({
  tasks: nullable(count),
  rolloutsPerTask: size,
  demonstration: flag,
  trainWithDemonstration: flag,
  maxTurns: size,
  context: count,
  keep: oneOf('resolved'),
  maxPerTask: nullable(count),
  mask: object<RftRecipe['mask']>({ observations: oneOf(0), formatErrorTurns: binary, toolErrorTurns: oneOf(1) }),
  optim: optimizer,
  epochs: size,
  batch: size,
  maxSteps: nullable(count),
  stepsPerJob: size,
})

const loss = object<LossRecipe>({
  algorithm: absentable(oneOf('grpo', 'drGrpo', 'gspo', 'cispo', 'dpo')),
  level: oneOf('token', 'sequence'),
  normalizer: oneOf('globalActionTokens', 'trajectoryTokens', 'constantLength', 'tokenBudget', 'pairs'),
  kl: either(
    oneOf(0),
    object<Exclude<LossRecipe['kl'], 0>>({ coefficient: number, reference: oneOf('base', 'start') }),
  ),
  entropy: number,
  dualClip: nullable(number),
  behaviourCorrection: oneOf('none', 'tis', 'sequenceTis', 'geometricTis', 'icepop'),
  sequenceMask: absentable(nullable(object<NonNullable<LossRecipe['sequenceMask']>>({ low: number, high: number }))),
})

const plateau = object<PlateauRecipe>({ metric: oneOf('heldOut.pass1'), window: size, minGain: number })

const stage = object<ReinforceStageRecipe>({
  name: text,
  context: count,
  maxTurns: size,
  penaltyStart: amount,
  problemsPerIteration: size,
  pool: oneOf('filtered', 'reselected'),
  select: nullable(
    object<NonNullable<ReinforceStageRecipe['select']>>({
      dropSuccessAtLeast: number,
      dropNeverSolved: flag,
      over: text,
      unseen: oneOf('keep', 'drop'),
    }),
  ),
  batch: either(count, object<Exclude<ReinforceStageRecipe['batch'], number>>({ tokens: count })),
  clip: absentable(object<NonNullable<ReinforceStageRecipe['clip']>>({ low: number, high: number })),
  until: object<ReinforceStageRecipe['until']>({ maxIterations: size, plateau: nullable(plateau) }),
})

type Reward = ReinforceRecipe['reward']

const reinforce = object<ReinforceRecipe>({
  groupSize: size,
  minGroupSize: size,
  mode: oneOf('sync'),
  maxPolicyLag: oneOf(0),
  reward: object<Reward>({
    pass: number,
    fail: number,
    unsubmitted: number,
    turnPenalty: object<Reward['turnPenalty']>({ start: oneOf('L_thr'), end: oneOf('T_max'), min: number }),
    contextPenalty: absentable(nullable(object<NonNullable<Reward['contextPenalty']>>({ start: number, min: number }))),
  }),
  stepRewards: absentable(object<StepRewardRecipe>({ weight: number, formatError: number, stoppedCommand: number })),
  experts: absentable(object<ExpertRecipe>({ weight: number, below: number })),
  advantage: object<ReinforceRecipe['advantage']>({
    center: oneOf('group'),
    scale: oneOf('groupStd', 'none'),
    ddof: oneOf(1),
    delta: number,
  }),
  filter: object<ReinforceRecipe['filter']>({
    on: oneOf('outcome', 'shaped'),
    alsoZeroAdvantage: flag,
    minGroupStd: number,
    refill: either(oneOf(false), count),
  }),
  overlong: oneOf('keep', 'filter'),
  loss,
  oldLogprobs: oneOf('trainer', 'sampler'),
  mask: object<ReinforceRecipe['mask']>({ observations: oneOf(0), formatErrorTurns: binary }),
  optim: optimizer,
  epochsPerIteration: size,
  keepState: flag,
  evaluateEvery: nullable(count),
  stages: listOf(stage),
})

const turnLimits = object<{ maxTurns: number; context: number }>({ maxTurns: size, context: count })

const evaluate = object<EvaluateRecipe>({
  attempts: size,
  tasks: nullable(count),
  sampling: oneOf('train', 'modelDefault'),
  modelSampling: absentable(nullable(sampling)),
  maxTurns: size,
  context: count,
  limits: absentable(mapOf(turnLimits)),
  demonstration: flag,
  suites: mapOf(suiteSource),
  quick: absentable(nullable(listOf(text))),
  policy: text,
  compare: absentable(
    nullable(
      object<CompareRecipe>({
        last: flag,
        baseline: nullable(text),
        margin: number,
        confidence: number,
        minGraded: number,
      }),
    ),
  ),
  prices: absentable(nullable(prices)),
})

const policyServer = object<PolicyServerRecipe>({
  kind: oneOf('embedded', 'vllm', 'sglang', 'chat'),
  url: nullable(text),
  replicas: absentable(listOf(text)),
  launch: absentable(
    nullable(
      object<EngineLaunchRecipe>({
        kind: oneOf('process'),
        replicas: size,
        placement: oneOf('separate', 'shared'),
        host: text,
        port: nullable(count),
        program: nullable(text),
        arguments: listOf(text),
        environment: mapOf(text),
        gpus: nullable(listOf(text)),
        startTimeoutS: amount,
      }),
    ),
  ),
  publish: absentable(nullable(oneOf('restart', 'reload', 'manual'))),
  leaseS: amount,
  patienceS: absentable(amount),
  chat: absentable(
    nullable(
      object<ChatRecipe>({
        apiKeyVariable: nullable(text),
        requestTimeoutS: amount,
        stream: absentable(flag),
        seed: flag,
        samplingFields: oneOf('standard', 'all'),
        maxTokensField: oneOf('max_tokens', 'max_completion_tokens'),
      }),
    ),
  ),
})

const docker = object<DockerLauncherRecipe>({
  image: text,
  python: text,
  mounts: listOf(text),
  gpus: flag,
  shmGiB: number,
})

const slurm = object<SlurmLauncherRecipe>({
  partition: nullable(text),
  account: nullable(text),
  qos: nullable(text),
  gpusPerNode: nullable(count),
  cpusPerTask: nullable(count),
  memory: nullable(text),
  python: nullable(text),
  extra: listOf(text),
})

const kubernetes = object<KubernetesLauncherRecipe>({
  namespace: text,
  image: text,
  python: text,
  claim: text,
  mountPath: text,
  gpusPerNode: count,
  cpus: number,
  memoryGiB: number,
  shmGiB: number,
  serviceAccount: nullable(text),
  runAsUser: integer,
  runAsGroup: integer,
  nodeSelector: mapOf(text),
})

const limit = absentable(nullable(number))

const trainer = object<TrainerRecipe>({
  launcher: oneOf('process', 'torchrun', 'docker', 'slurm', 'kubernetes'),
  device: oneOf('cpu', 'cuda'),
  nodes: size,
  ranksPerNode: size,
  contextParallel: size,
  maxTokensPerMicro: count,
  recompute: absentable(nullable(oneOf('none', 'full', 'save_attention'))),
  offload: absentable(oneOf('none', 'activations', 'optimizer', 'both')),
  checkpoint: absentable(object<NonNullable<TrainerRecipe['checkpoint']>>({ everySteps: count, everyS: number })),
  deterministic: flag,
  docker: absentable(nullable(docker)),
  slurm: absentable(nullable(slurm)),
  kubernetes: absentable(nullable(kubernetes)),
  timeoutS: amount,
  stallS: amount,
  exportDtype: oneOf('float32', 'bfloat16'),
  alarms: object<TrainerRecipe['alarms']>({
    onAlarm: absentable(oneOf('pause', 'warn')),
    kl: limit,
    logprobGap: limit,
    importanceMean: absentable(pairOf(number)),
    importanceStd: limit,
    effectiveSamples: limit,
    chi2: limit,
    capped: limit,
    masked: limit,
    gradNorm: limit,
    entropy: limit,
    entropyShare: limit,
    fineTuningLoss: limit,
    divergedKl: limit,
  }),
})

const tracker = variants<TrackerRecipe, 'kind'>('kind', {
  mlflow: object<Extract<TrackerRecipe, { kind: 'mlflow' }>>({
    kind: oneOf('mlflow'),
    url: text,
    experiment: text,
    tokenVariable: nullable(text),
  }),
  tensorboard: object<Extract<TrackerRecipe, { kind: 'tensorboard' }>>({
    kind: oneOf('tensorboard'),
    directory: text,
  }),
  wandb: object<Extract<TrackerRecipe, { kind: 'wandb' }>>({
    kind: oneOf('wandb'),
    project: text,
    entity: nullable(text),
    directory: text,
  }),
})

export const storedRecipe = object<StoredRecipe>({
  schema: oneOf('longhaul.recipe/1'),
  hash: text,
  recipe: object<Recipe>({
    name: text,
    seed: number,
    model,
    data,
    scaffold,
    sandbox,
    rollout,
    rft: nullable(rft),
    reinforce: nullable(reinforce),
    evaluate,
    grading: absentable(object<GradingRecipe>({ unauditedRewards: oneOf('refuse', 'allow') })),
    promotion: absentable(
      object<PromotionRecipe>({
        gate: oneOf('always', 'notWorse'),
        margin: number,
        confidence: number,
        minGraded: number,
      }),
    ),
    policyServer,
    trainer,
    trackers: absentable(listOf(tracker)),
  }),
})
