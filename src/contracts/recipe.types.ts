/**
 * A resolved recipe with every key and default. The names are those of the conformance table that compares a
 * recipe with the paper (arXiv 2508.03501). `recipe.schema.ts` parses and checks it, never inside a workflow.
 */
import type { AlarmLimits } from './training.types.ts'
import type { TrackerRecipe } from './trackers.types.ts'
import type { SamplingOptions } from './episodes.types.ts'
import type { ChatFormatName } from './policy.types.ts'
import type { SuiteSource } from './tasks.types.ts'

export interface Recipe {
  /** File name without extension. Part of run names. */
  name: string
  /** Every seed and order is derived from it, never from a run's name. */
  seed: number
  model: ModelRecipe
  data: DataRecipe
  scaffold: ScaffoldRecipe
  sandbox: SandboxRecipe
  rollout: RolloutRecipe
  /** Null: no rejection fine-tuning. */
  rft: RftRecipe | null
  /** Null: no reinforcement learning. */
  reinforce: ReinforceRecipe | null
  evaluate: EvaluateRecipe
  grading: GradingRecipe
  promotion: PromotionRecipe
  policyServer: PolicyServerRecipe
  trainer: TrainerRecipe
  /** Trackers that receive metrics in addition to the records; none by default. */
  trackers: TrackerRecipe[]
}

export interface ModelRecipe {
  /** A directory (relative to the recipe file or absolute), or the name of a model in a mounted hub cache. */
  base: string
  /** Refused if the import of the base found another format. */
  chatFormat: ChatFormatName
  train: 'full' | 'lora'
  lora: { rank: number; alpha: number } | null
  /** ISO date, UTC. Tasks created on it or later cannot be in the base model's training data; reports show both parts. Null: unknown. */
  cutoff: string | null
  rope: { type: 'yarn'; factor: number; originalMax: number } | null
}

/** How an evaluation that was started alone is compared with others, task by task. */
export interface CompareRecipe {
  /** Compares with the last evaluation of its series. */
  last: boolean
  /** `RUN:EVALUATION`, or `RUN`; null = none. */
  baseline: string | null
  /** Allowed loss of pass@1. */
  margin: number
  confidence: number
  minGraded: number
}

/** Condition for the promotion of a training run's last policy. */
export interface PromotionRecipe {
  /** `notWorse`: the interval on the same tasks excludes a loss of pass@1 beyond the margin. */
  gate: 'always' | 'notWorse'
  margin: number
  confidence: number
  minGraded: number
}

/** Whether a resolved verdict without an audit is paid: no audit exists for its test runner, or its record is older than audits. */
export type UnauditedRewards = 'refuse' | 'allow'

export interface GradingRecipe {
  unauditedRewards: UnauditedRewards
}

export interface DataRecipe {
  train: SuiteSource
  heldOut: SuiteSource
  filters: {
    hiddenNames: 'drop' | 'keep'
    maxFiles: number | null
    maxLines: number | null
    dropLlmScore: number | null
    flakyTrials: number | null
  }
  /** Policy for training tasks that are evaluated too: `fail` ends the run, `exclude` never trains on them. */
  overlap: 'fail' | 'exclude'
  /** `fail`: a refused task ends the run; `exclude`: the run lists it and continues without it. */
  gate: {
    /** Gradings of the gold patch. The empty patch is graded at most three times. */
    repeats: number
    refused: 'fail' | 'exclude'
    /** Tasks that are gated concurrently; null: eight for each polling sandbox host, at least sixteen. */
    width: number | null
  }
}

export interface ScaffoldRecipe {
  profile: string
  history: 'full'
  commandsPerTurn: 1
  submit: { capture: 'unstaged' | 'all' }
  limits: { commandTimeoutS: number; maxTokensPerTurn: number }
}

export interface SandboxRecipe {
  request: { cpu: number; memGiB: number }
  /** `diskGiB`: the engine enforces it on xfs with project quotas, elsewhere the sandbox worker; null = no limit. */
  limit: { cpu: number; memGiB: number; pids: number; diskGiB: number | null }
  network: 'none' | 'proxy'
  /** Hosts that agents' sandboxes may reach with `network: proxy`, each with or without a port. */
  allow: string[]
  /** OCI runtime by its name in the engine (`runc`, `runsc`, `kata`); null = the host's choice. */
  runtime: string | null
}

export interface RolloutRecipe {
  /** Neutral decoding for training rollouts. */
  sampling: SamplingOptions
  /** Concurrently open episodes of the whole run; enough to keep the sampler's batches full. */
  maxOpenEpisodes: number
  turnsPerStep: number
  episodeTimeoutS: number
  /** Maximum number of replacements of a group's `infra` episodes. */
  maxReplacements: number
}

export interface OptimizerRecipe {
  name: 'adamw'
  lr: number
  betas: [number, number]
  eps: number
  weightDecay: number
  gradClip: number
  schedule: 'constant' | 'linear' | 'cosine'
  warmupSteps: number
  endLr: number
  states: 'float32' | 'bfloat16'
}

export interface RftRecipe {
  /** Number of tasks that are sampled from the training suite; null = all. */
  tasks: number | null
  rolloutsPerTask: number
  demonstration: boolean
  trainWithDemonstration: boolean
  maxTurns: number
  context: number
  keep: 'resolved'
  maxPerTask: number | null
  mask: { observations: 0; formatErrorTurns: 0 | 1; toolErrorTurns: 1 }
  optim: OptimizerRecipe
  epochs: number
  /** Trajectories per optimizer step. */
  batch: number
  maxSteps: number | null
  /** Maximum number of optimizer steps of one training job. */
  stepsPerJob: number
}

export interface ReinforceRecipe {
  groupSize: number
  /** A group with fewer valid episodes is dropped. */
  minGroupSize: number
  mode: 'sync'
  maxPolicyLag: 0
  reward: {
    pass: number
    fail: number
    unsubmitted: number
    turnPenalty: { start: 'L_thr'; end: 'T_max'; min: number }
    /** Context penalty in addition to the turn penalty. `start` is a share of the stage's context; a full context costs `min`. Null: none. */
    contextPenalty: { start: number; min: number } | null
  }
  /** Rewards of single turns in addition to the episode's. Absent: none. */
  stepRewards?: StepRewardRecipe | undefined
  /** Successes of fine-tuning that are added to groups that rarely succeed. Absent: none. */
  experts?: ExpertRecipe | undefined
  /** `none` does not divide the advantage by the standard deviation of the group's rewards (Dr. GRPO, arXiv 2503.20783). */
  advantage: { center: 'group'; scale: 'groupStd' | 'none'; ddof: 1; delta: number }
  /** `refill`: maximum rounds of further problems for groups without a spread; false = none, as in the paper. */
  filter: { on: 'outcome' | 'shaped'; alsoZeroAdvantage: boolean; minGroupStd: number; refill: number | false }
  /** `filter`: an episode that a limit ended has no loss, but its reward counts in the group. */
  overlong: 'keep' | 'filter'
  loss: LossRecipe
  oldLogprobs: 'trainer' | 'sampler'
  mask: { observations: 0; formatErrorTurns: 0 | 1 }
  optim: OptimizerRecipe
  epochsPerIteration: number
  /** Whether optimizer state continues over iterations and stages. */
  keepState: boolean
  /** Evaluates the held-out suite every n iterations inside a stage; null = only after the stage. */
  evaluateEvery: number | null
  stages: ReinforceStageRecipe[]
}

/** Rewards of single turns. Both are at most 0. */
export interface StepRewardRecipe {
  /** Factor of a turn's advantage when it is added to the trajectory's. */
  weight: number
  /** Reward of a turn whose reply contained no runnable command. */
  formatError: number
  /** Reward of a turn whose command was ended by a limit on time, output or processes. */
  stoppedCommand: number
}

/** Which groups get an expert, and its weight. */
export interface ExpertRecipe {
  /** Advantage of an expert's tokens. */
  weight: number
  /** A group with fewer successes gets an expert. */
  below: number
}

export type LossAlgorithm = 'dapo' | 'grpo' | 'drGrpo' | 'gspo' | 'cispo' | 'dpo'

/** docs/training.md has the formulas. */
export interface LossRecipe {
  /** Absent: dapo. */
  algorithm?: Exclude<LossAlgorithm, 'dapo'> | undefined
  /** Unit of the clipped probability ratio. The algorithm determines it. */
  level: 'token' | 'sequence'
  /** Divisor of the sum over tokens. The algorithm determines it, except `tokenBudget`. */
  normalizer: 'globalActionTokens' | 'trajectoryTokens' | 'constantLength' | 'tokenBudget' | 'pairs'
  /** Weight of the divergence from a reference policy: the run's base, or the policy at the start of reinforcement. The beta of dpo. */
  kl: 0 | { coefficient: number; reference: 'base' | 'start' }
  /** Weight of the policy's entropy in nats a token. */
  entropy: number
  dualClip: number | null
  behaviourCorrection: 'none' | 'tis' | 'sequenceTis' | 'geometricTis' | 'icepop'
  /** Bounds of the geometric mean of a trajectory's importance ratios. A trajectory outside has no loss. Null: no bounds. */
  sequenceMask: { low: number; high: number } | null
}

export interface ReinforceStageRecipe {
  /** Part of ids: `dapo-1`, `dapo-2`. */
  name: string
  context: number
  maxTurns: number
  /** L_thr: number of turns at which the turn penalty starts. */
  penaltyStart: number
  problemsPerIteration: number
  pool: 'filtered' | 'reselected'
  select: { dropSuccessAtLeast: number; dropNeverSolved: boolean; over: string; unseen: 'keep' | 'drop' } | null
  /** Trajectories per optimizer step, or with `tokens` loss tokens per step (C3PO). */
  batch: number | { tokens: number }
  /** Absent only with dpo, which has no ratio. */
  clip?: { low: number; high: number } | undefined
  until: { maxIterations: number; plateau: PlateauRecipe | null }
}

/** A stage ends if its held-out evaluations gain less than `minGain` from one window of iterations to the next. */
export interface PlateauRecipe {
  metric: 'heldOut.pass1'
  window: number
  minGain: number
}

export interface EvaluateRecipe {
  /** k: episodes per task. */
  attempts: number
  /** Number of held-out tasks; null = the whole suite. */
  tasks: number | null
  /** `train` = the neutral rollout sampling; `modelDefault` = read once from the base model's published configuration. */
  sampling: 'train' | 'modelDefault'
  /** The base model's published decoding, read once when the recipe is resolved; null with `train`. */
  modelSampling: SamplingOptions | null
  /** Limits of an attempt unless `limits` has others. */
  maxTurns: number
  context: number
  /** Limits of evaluations after a training (`base`, `rft` or a stage's name) and inside that stage. */
  limits: Record<string, { maxTurns: number; context: number }>
  demonstration: boolean
  /** Further suites by name, evaluated between stages in addition to `data.heldOut`. Only the scores of `data.heldOut` affect the run. */
  suites: Record<string, SuiteSource>
  /** Number of held-out tasks of evaluations inside a stage, which give curve and plateau; null = all. */
  quick: string[] | null
  /** Policy of a root `evaluate`: `promoted` (the newest), `base`, `kept` (every promotion that is still stored), or a version. */
  policy: string
  /** Null: evaluations that were started alone are not compared. */
  compare: CompareRecipe | null
  /** Null: no cost is shown. */
  prices: PriceRecipe | null
}

/** Prices of what an evaluation uses. */
export interface PriceRecipe {
  currency: string
  /** Null `cachedInput`: cached tokens have the price of other input. */
  perMillionTokens: { input: number; cachedInput: number | null; output: number } | null
  /** Price of what is rented while the evaluation's attempts run. */
  machines: { name: string; count: number; perHour: number }[]
}

export interface PolicyServerRecipe {
  /** `embedded`, `vllm` and `sglang` return token ids and may train; `chat` may only be evaluated. */
  kind: 'embedded' | 'vllm' | 'sglang' | 'chat'
  /** Null: the address in LONGHAUL_POLICY_URL (the local stack's server). */
  url: string | null
  /** Further servers of the same kind with the same policies. Sessions are spread over all of them. */
  replicas: string[]
  /** Null: Longhaul starts no engine; operators run the servers at `url` and `replicas`. */
  launch: EngineLaunchRecipe | null
  /**
   * vLLM and SGLang only. `restart`: Longhaul, if it launches the engines, or else their operator restarts them on each policy;
   * `reload`: engines read weights in place; `manual`: their operator always publishes. Null: with `launch` in place, or by a restart if an
   * engine refuses; without `launch` by `restart`.
   */
  publish: 'restart' | 'reload' | 'manual' | null
  leaseS: number
  /** Seconds without an answer of any server after which a run ends with `Model.Unreachable`. */
  patienceS: number
  /** Present only with `kind: chat`. */
  chat: ChatRecipe | null
}

/** Engines that Longhaul starts, restarts, parks and ends. */
export interface EngineLaunchRecipe {
  /** Processes on the host of the trainer worker that publishes first. */
  kind: 'process'
  replicas: number
  /** `shared`: engines sleep during each training job, or end before it and start after it, because both use the same GPUs or memory. */
  placement: 'separate' | 'shared'
  /** Address that the engines listen on. */
  host: string
  /** Port of the first replica; the next ones count up. Null: free ports, which stay the same for the run. */
  port: number | null
  /** Program of the engine; null: `vllm`, or for SGLang `python`, from the worker's PATH; for embedded the trainer's Python. */
  program: string | null
  /** Further flags: parallelism, memory, speed. */
  arguments: string[]
  /** Further variables. The run's records contain them, so none may be a secret. */
  environment: Record<string, string>
  /** CUDA_VISIBLE_DEVICES of each replica; null: the worker's own. */
  gpus: string[] | null
  /** Maximum time from the start of a process to its first answer. */
  startTimeoutS: number
}

/** Settings of an OpenAI-compatible endpoint. `model.base` is the model's name there. */
export interface ChatRecipe {
  /** Name of the environment variable with the key; null = no key. */
  apiKeyVariable: string | null
  requestTimeoutS: number
  /** Whether replies are streamed, for gateways that close idle connections. */
  stream: boolean
  /** Whether requests contain a seed. */
  seed: boolean
  /** `standard`: OpenAI's four fields; `all`: also topK, minP and repetitionPenalty, which vLLM, SGLang and llama.cpp accept. */
  samplingFields: 'standard' | 'all'
  maxTokensField: 'max_tokens' | 'max_completion_tokens'
}

export type LauncherKind = 'process' | 'torchrun' | 'docker' | 'slurm' | 'kubernetes'

/** A container on the trainer worker's own engine, which mounts the artifacts at the same path. */
export interface DockerLauncherRecipe {
  /** Image with Python and the trainer's packages, unless `mounts` provides them. */
  image: string
  python: string
  /** Directories of the host that are mounted read-only at the same path. */
  mounts: string[]
  gpus: boolean
  /** Size of shared memory, which NCCL and gloo use between ranks. */
  shmGiB: number
}

/** Needs a shared file system with artifacts and the Python environment at the same paths. */
export interface SlurmLauncherRecipe {
  partition: string | null
  account: string | null
  qos: string | null
  gpusPerNode: number | null
  cpusPerTask: number | null
  memory: string | null
  /** Interpreter on the nodes; null: the worker's own path. */
  python: string | null
  /** Further options of sbatch, for example `--exclusive`. */
  extra: string[]
}

export interface KubernetesLauncherRecipe {
  namespace: string
  image: string
  python: string
  /** PersistentVolumeClaim (ReadWriteMany) with the artifacts. */
  claim: string
  /** Mount path: the artifact directory on the trainer worker, or a directory above it. */
  mountPath: string
  gpusPerNode: number
  cpus: number
  memoryGiB: number
  shmGiB: number
  serviceAccount: string | null
  /** Never 0. The user must have write access where the workers write. */
  runAsUser: number
  runAsGroup: number
  nodeSelector: Record<string, string>
}

export interface TrainerRecipe {
  launcher: LauncherKind
  device: 'cpu' | 'cuda'
  nodes: number
  ranksPerNode: number
  contextParallel: number
  maxTokensPerMicro: number
  /** Never null in a loaded recipe. */
  recompute: 'none' | 'full' | 'save_attention' | null
  offload: 'none' | 'activations' | 'optimizer' | 'both'
  /** Minimum distance between the checkpoints that a killed job continues from. Absent: one after each optimizer step. */
  checkpoint?: { everySteps: number; everyS: number } | undefined
  deterministic: boolean
  /** Present only with the launcher of the same name, which requires it; slurm has defaults for all keys. */
  docker: DockerLauncherRecipe | null
  slurm: SlurmLauncherRecipe | null
  kubernetes: KubernetesLauncherRecipe | null
  timeoutS: number
  stallS: number
  exportDtype: 'float32' | 'bfloat16'
  /** Limits on the metrics of a training job that pause the run or end the stage. */
  alarms: AlarmLimits & { onAlarm: 'pause' | 'warn' }
}
