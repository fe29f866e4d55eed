/**
 * A resolved recipe: every key present, defaults filled in. The names are those of the conformance table that compares a
 * recipe with the paper (arXiv 2508.03501). Parsed and checked by `recipe.schema.ts`, never inside a workflow.
 */
import type { AlarmLimits } from './training.types.ts'
import type { TrackerRecipe } from './trackers.types.ts'
import type { SamplingOptions } from './episodes.types.ts'
import type { ChatFormatName } from './policy.types.ts'
import type { SuiteSource } from './tasks.types.ts'

export interface Recipe {
  /** File name without extension; part of run names. */
  name: string
  /** Every seed and order derives from it, never from a run's name. */
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
  /** Where metrics go beside the records; none by default. */
  trackers: TrackerRecipe[]
}

export interface ModelRecipe {
  /** A directory (relative to the recipe file or absolute), or the name of a model in a mounted hub cache. */
  base: string
  /** Refused where the base's import found another one. */
  chatFormat: ChatFormatName
  train: 'full' | 'lora'
  lora: { rank: number; alpha: number } | null
  /** ISO date, UTC: tasks created then or later cannot be in the base model's training data. Reports show both sides. Null: not known. */
  cutoff: string | null
  rope: { type: 'yarn'; factor: number; originalMax: number } | null
}

/** How an evaluation that is started alone is held against others, task by task. */
export interface CompareRecipe {
  /** Against the last one of its series. */
  last: boolean
  /** `RUN:EVALUATION`, or `RUN`; null = none. */
  baseline: string | null
  /** Loss of pass@1 that is allowed. */
  margin: number
  confidence: number
  minGraded: number
}

/** What the last policy of a training run has to show before it is promoted. */
export interface PromotionRecipe {
  /** `notWorse`: a loss of pass@1 beyond the margin is excluded, on the same tasks. */
  gate: 'always' | 'notWorse'
  margin: number
  confidence: number
  minGraded: number
}

/** Whether a resolved verdict is paid that no audit could look at: its test runner has none, or its record is older than audits. */
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
  /** Of training tasks that are evaluated too: `fail` ends the run, `exclude` never trains on them. */
  overlap: 'fail' | 'exclude'
  /** `fail`: a refused task ends the run; `exclude`: it leaves the suite and is listed. */
  gate: {
    /** Gradings of the gold patch; those of the empty one are at most three. */
    repeats: number
    refused: 'fail' | 'exclude'
    /** Tasks under way at once; null: eight for each sandbox host that polls, sixteen at least. */
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
  /** `diskGiB` holds by the engine over xfs with project quotas, elsewhere by the sandbox worker's count; null = no limit. */
  limit: { cpu: number; memGiB: number; pids: number; diskGiB: number | null }
  network: 'none' | 'proxy'
  /** Hosts that sandboxes of agents reach with `network: proxy`, each with or without a port. */
  allow: string[]
  /** OCI runtime by the name that the engine knows (`runc`, `runsc`, `kata`); null = the host's choice. */
  runtime: string | null
}

export interface RolloutRecipe {
  /** Neutral decoding for training rollouts. */
  sampling: SamplingOptions
  /** Episodes open at once over the whole run; enough to keep the sampler's batches full. */
  maxOpenEpisodes: number
  turnsPerStep: number
  episodeTimeoutS: number
  /** Replacements a group may draw for `infra` episodes. */
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
  /** Tasks sampled from the training suite; null = all. */
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
  /** Optimizer steps of one training job. */
  stepsPerJob: number
}

export interface ReinforceRecipe {
  groupSize: number
  /** Fewer valid siblings than this and the group is dropped. */
  minGroupSize: number
  mode: 'sync'
  maxPolicyLag: 0
  reward: {
    pass: number
    fail: number
    unsubmitted: number
    turnPenalty: { start: 'L_thr'; end: 'T_max'; min: number }
    /** Beside the turn penalty: `start` is a share of the stage's context, `min` is reached where it is full. Null: none. */
    contextPenalty: { start: number; min: number } | null
  }
  /** Rewards of single turns, beside the episode's. Absent: none. */
  stepRewards?: StepRewardRecipe | undefined
  /** Successes of fine-tuning beside groups that rarely succeed. Absent: none. */
  experts?: ExpertRecipe | undefined
  /** `none` leaves the spread of a group's rewards in the advantage (Dr. GRPO, arXiv 2503.20783). */
  advantage: { center: 'group'; scale: 'groupStd' | 'none'; ddof: 1; delta: number }
  /** `refill`: rounds of further problems that an iteration may draw for groups without a spread; false = none, as in the paper. */
  filter: { on: 'outcome' | 'shaped'; alsoZeroAdvantage: boolean; minGroupStd: number; refill: number | false }
  /** `filter`: an episode that a limit ended has no loss; its reward stays in the group. */
  overlong: 'keep' | 'filter'
  loss: LossRecipe
  oldLogprobs: 'trainer' | 'sampler'
  mask: { observations: 0; formatErrorTurns: 0 | 1 }
  optim: OptimizerRecipe
  epochsPerIteration: number
  /** Optimizer state is carried over iterations and stages. */
  keepState: boolean
  /** Held-out evaluation inside a stage every n iterations; null = only after the stage. */
  evaluateEvery: number | null
  stages: ReinforceStageRecipe[]
}

/** Rewards of single turns; both are at most 0. */
export interface StepRewardRecipe {
  /** Factor of a turn's advantage before it is added to the trajectory's. */
  weight: number
  /** The reward of a turn whose reply held no runnable command. */
  formatError: number
  /** The reward of a turn whose command a limit ended: time, output or processes. */
  stoppedCommand: number
}

/** Which groups get an expert, and what it counts for. */
export interface ExpertRecipe {
  /** Stands for the advantage of an expert's tokens. */
  weight: number
  /** A group with fewer successes than this gets an expert. */
  below: number
}

export type LossAlgorithm = 'dapo' | 'grpo' | 'drGrpo' | 'gspo' | 'cispo' | 'dpo'

/** docs/training.md has the formulas. */
export interface LossRecipe {
  /** Absent: dapo. */
  algorithm?: Exclude<LossAlgorithm, 'dapo'> | undefined
  /** Whose probability ratio is clipped; follows from the algorithm. */
  level: 'token' | 'sequence'
  /** What the sum over tokens is divided by; follows from the algorithm, but for `tokenBudget`. */
  normalizer: 'globalActionTokens' | 'trajectoryTokens' | 'constantLength' | 'tokenBudget' | 'pairs'
  /** Weight of the divergence from a reference policy: the run's base, or the policy that reinforcement began with. The beta of dpo. */
  kl: 0 | { coefficient: number; reference: 'base' | 'start' }
  /** Weight of the policy's entropy, nats a token. */
  entropy: number
  dualClip: number | null
  behaviourCorrection: 'none' | 'tis' | 'sequenceTis' | 'geometricTis' | 'icepop'
  /** Bounds of the geometric mean of a trajectory's importance ratio; one outside has no loss. Null: all have. */
  sequenceMask: { low: number; high: number } | null
}

export interface ReinforceStageRecipe {
  /** Part of ids: `dapo-1`, `dapo-2`. */
  name: string
  context: number
  maxTurns: number
  /** L_thr: the turn penalty starts here. */
  penaltyStart: number
  problemsPerIteration: number
  pool: 'filtered' | 'reselected'
  select: { dropSuccessAtLeast: number; dropNeverSolved: boolean; over: string; unseen: 'keep' | 'drop' } | null
  /** Trajectories per optimizer step; `tokens`: loss tokens in their place (C3PO). */
  batch: number | { tokens: number }
  /** Absent with dpo, which has no ratio, and only then. */
  clip?: { low: number; high: number } | undefined
  until: { maxIterations: number; plateau: PlateauRecipe | null }
}

/** A stage ends when its held-out evaluations gain less than `minGain` from one window of iterations to the next. */
export interface PlateauRecipe {
  metric: 'heldOut.pass1'
  window: number
  minGain: number
}

export interface EvaluateRecipe {
  /** k: episodes per task. */
  attempts: number
  /** Held-out tasks used; null = the whole suite. */
  tasks: number | null
  /** `train` = the neutral rollout sampling; `modelDefault` = read once from the base model's published configuration. */
  sampling: 'train' | 'modelDefault'
  /** The base model's published decoding, read once when the recipe is resolved; null with `train`. */
  modelSampling: SamplingOptions | null
  /** Of an attempt, where `limits` says nothing else. */
  maxTurns: number
  context: number
  /** By what was trained last, `base`, `rft` or a stage's name: the limits of evaluations after it and, of a stage, inside it. */
  limits: Record<string, { maxTurns: number; context: number }>
  demonstration: boolean
  /** Further suites by name, evaluated between stages beside `data.heldOut`, whose scores alone steer anything. */
  suites: Record<string, SuiteSource>
  /** Held-out tasks that evaluations inside a stage play: curve and plateau are of these; null = all. */
  quick: string[] | null
  /** What a root `evaluate` evaluates: `promoted` (the newest), `base`, `kept` (every promotion that is still stored), or a version. */
  policy: string
  /** Null: evaluations that are started alone are held against no other. */
  compare: CompareRecipe | null
  /** Null: no cost is shown anywhere. */
  prices: PriceRecipe | null
}

/** What an evaluation costs, as far as its owner pays for it. */
export interface PriceRecipe {
  currency: string
  /** Null `cachedInput`: cached tokens cost what others do. */
  perMillionTokens: { input: number; cachedInput: number | null; output: number } | null
  /** What is rented for as long as the evaluation's attempts run. */
  machines: { name: string; count: number; perHour: number }[]
}

export interface PolicyServerRecipe {
  /** `embedded`, `vllm` and `sglang` prove tokens and may train; `chat` may only be evaluated. */
  kind: 'embedded' | 'vllm' | 'sglang' | 'chat'
  /** Null: the address in LONGHAUL_POLICY_URL (the local stack's server). */
  url: string | null
  /** Further servers of the same kind that serve the same policies; sessions are spread over all of them. */
  replicas: string[]
  /** Null: Longhaul starts no engine, the servers at `url` and `replicas` are their operators'. */
  launch: EngineLaunchRecipe | null
  /**
   * vLLM and SGLang only. `restart`: started anew on each policy, by Longhaul where it launches them, else by their operator;
   * `reload`: reading weights in place; `manual`: always by their operator. Null: with `launch` in place, and by a restart where an
   * engine cannot; without it `restart`.
   */
  publish: 'restart' | 'reload' | 'manual' | null
  leaseS: number
  /** Seconds that a run waits for a server that does not answer, before it ends with `Model.Unreachable`. */
  patienceS: number
  /** Present with `kind: chat` and only then. */
  chat: ChatRecipe | null
}

/** Engines that Longhaul starts, restarts, parks and ends by itself. */
export interface EngineLaunchRecipe {
  /** Processes on the host of the trainer worker that publishes first. */
  kind: 'process'
  replicas: number
  /** `shared`: asleep during each training job, or ended before it and started after it, because both use the same GPUs or memory. */
  placement: 'separate' | 'shared'
  /** Address that they listen on and sessions reach. */
  host: string
  /** Of the first replica, the next ones count up; null: free ones, which the run keeps. */
  port: number | null
  /** What starts the engine; null: `vllm`, for SGLang `python`, both looked for in the worker's PATH; for embedded the trainer's Python. */
  program: string | null
  /** Further flags: parallelism, memory, speed. */
  arguments: string[]
  /** Further variables. They are stored with the run, so none may be a secret. */
  environment: Record<string, string>
  /** CUDA_VISIBLE_DEVICES of each replica; null: as the worker has it. */
  gpus: string[] | null
  /** From the start of a process to its first answer. */
  startTimeoutS: number
}

/** How an OpenAI-compatible endpoint is spoken to. `model.base` is the name that the endpoint knows. */
export interface ChatRecipe {
  /** Name of the environment variable that holds the key; null = none is sent. */
  apiKeyVariable: string | null
  requestTimeoutS: number
  /** Whether replies are asked for as streams, for gateways that cut a connection on which nothing comes. */
  stream: boolean
  /** Whether a seed is sent. */
  seed: boolean
  /** `standard`: OpenAI's four; `all`: also topK, minP and repetitionPenalty, as vLLM, SGLang and llama.cpp take them. */
  samplingFields: 'standard' | 'all'
  maxTokensField: 'max_tokens' | 'max_completion_tokens'
}

export type LauncherKind = 'process' | 'torchrun' | 'docker' | 'slurm' | 'kubernetes'

/** A container on the trainer worker's own engine, with the artifacts at the same path. */
export interface DockerLauncherRecipe {
  /** Holds Python with the trainer's packages, or `mounts` brings them. */
  image: string
  python: string
  /** Directories of the host that appear at the same path, read-only. */
  mounts: string[]
  gpus: boolean
  /** Shared memory, which NCCL and gloo use between ranks. */
  shmGiB: number
}

/** Needs a shared file system that holds artifacts and the Python environment at the same paths. */
export interface SlurmLauncherRecipe {
  partition: string | null
  account: string | null
  qos: string | null
  gpusPerNode: number | null
  cpusPerTask: number | null
  memory: string | null
  /** Interpreter on the nodes; null: the worker's own path. */
  python: string | null
  /** Further options of sbatch, as `--exclusive`. */
  extra: string[]
}

export interface KubernetesLauncherRecipe {
  namespace: string
  image: string
  python: string
  /** PersistentVolumeClaim (ReadWriteMany) that holds the artifacts. */
  claim: string
  /** Where it is mounted: the artifact directory's own path on the trainer worker, or one above it. */
  mountPath: string
  gpusPerNode: number
  cpus: number
  memoryGiB: number
  shmGiB: number
  serviceAccount: string | null
  /** Never 0. It has to be able to write where the workers write. */
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
  /** Null in no recipe that was loaded. */
  recompute: 'none' | 'full' | 'save_attention' | null
  offload: 'none' | 'activations' | 'optimizer' | 'both'
  /** At least so far apart are the checkpoints that a killed job continues from. Absent: one after each optimizer step. */
  checkpoint?: { everySteps: number; everyS: number } | undefined
  deterministic: boolean
  /** Needed by, and only with, the launcher of that name; slurm has defaults for all of it. */
  docker: DockerLauncherRecipe | null
  slurm: SlurmLauncherRecipe | null
  kubernetes: KubernetesLauncherRecipe | null
  timeoutS: number
  stallS: number
  exportDtype: 'float32' | 'bfloat16'
  /** When what a training job measured holds the run, or ends the stage. */
  alarms: AlarmLimits & { onAlarm: 'pause' | 'warn' }
}
