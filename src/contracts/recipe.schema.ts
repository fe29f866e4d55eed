/**
 * The recipe file as zod sees it: strict objects with defaults. Defaults are the paper's where it states a rule
 * (arXiv 2508.03501) and neutral elsewhere; sizes of a run have none. The name is not a key: it is the file's own.
 * `schemas/recipe.schema.json` is generated from this file.
 */
import { z } from 'zod'
import type { Recipe } from './recipe.types.ts'
import { SYNTHETIC_FAMILIES } from './synthetic-families.ts'
import {
  dockerLauncher,
  kubernetesLauncher,
  slurmLauncher,
  rftSchema,
  count,
  positive,
  samplingSchema,
  trackerSchema,
} from './recipe-parts.schema.ts'
import { reinforceSchema } from './recipe-reinforce.schema.ts'

/** An entry of `sandbox.allow`: `pypi.org`, `*.example.org`, each with or without `:port`. Names only: an address says nothing of
 *  who answers there, and those of the host's own networks are never reached. */
export const ALLOWED_HOST =
  /^(?:\*\.)?(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?(?::\d{1,5})?$/

const publishedPart = {
  filters: z
    .array(z.string().min(1))
    .default([])
    .describe('As longhaul tasks import --filter: created>=DATE, created<DATE, files<=N, lines<=N, llm-score!=X, …'),
  ids: z.array(z.string().min(1)).min(1).nullable().default(null).describe('Only these instance ids'),
  evidence: z.string().min(1).nullable().default(null).describe('JSONL that hidden-names and deterministic read'),
  refused: z.enum(['fail', 'exclude']).default('fail').describe('Rows that could not be graded exactly'),
  limit: count().nullable().default(null),
}

const suiteSource = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('synthetic'),
    family: z.enum(SYNTHETIC_FAMILIES).default('one-wrong-line'),
    seed: z.int().min(0),
    split: z.enum(['train', 'eval']),
    count: count(),
    offset: z.int().min(0).default(0),
  }),
  z.strictObject({
    kind: z.literal('rows'),
    path: z.string().min(1).describe('JSONL file that longhaul tasks import or synthesize wrote'),
    limit: count().nullable().default(null),
  }),
  z.strictObject({
    kind: z.literal('hub'),
    dataset: z
      .string()
      .regex(/^[\w.-]+\/[\w.-]+$/, 'expected OWNER/NAME')
      .describe('OWNER/NAME of the hub'),
    revision: z
      .string()
      .regex(/^[0-9a-f]{40}$/, 'expected a commit of 40 hexadecimal digits')
      .nullable()
      .default(null)
      .describe('A commit of 40 hexadecimal digits: branches and tags move; null only with split: newest'),
    split: z
      .string()
      .min(1)
      .describe('newest: the newest monthly split on the day of the run, pinned with its commit in the run’s record'),
    ...publishedPart,
  }),
  z.strictObject({
    kind: z.literal('file'),
    path: z.string().min(1).describe('A published file: .parquet, .json or .jsonl'),
    ...publishedPart,
  }),
])

/** Part of ids of evaluations: no dash, so that none looks like an iteration's, and no dot, which stands between the two names. */
const suiteName = z
  .string()
  .regex(/^[A-Za-z][A-Za-z0-9_]*$/, 'expected letters, digits and _, as verified or rebench_2025_05')

const model = z.strictObject({
  base: z.string().min(1).describe('Model directory (relative to the recipe file or absolute) or name in a hub cache'),
  chatFormat: z.enum(['chatml', 'llama3']).default('chatml').describe('Conversation format of the model'),
  train: z.enum(['full', 'lora']).default('full'),
  lora: z
    .strictObject({ rank: count(), alpha: positive() })
    .nullable()
    .default(null)
    .describe('Adapters on every linear layer of the decoder; only with train: lora'),
  cutoff: z.iso
    .date()
    .nullable()
    .default(null)
    .describe('Tasks created on this day or later cannot be in the base model’s training data; for reports'),
  rope: z
    .strictObject({
      type: z.literal('yarn'),
      factor: z.number().min(1),
      originalMax: count().describe('Positions that the model was trained with'),
    })
    .nullable()
    .default(null)
    .describe(
      'Written into the base policy’s config.json, where server and trainer read it; another rope, another policy',
    ),
})

const data = z.strictObject({
  train: suiteSource,
  heldOut: suiteSource,
  filters: z
    .strictObject({
      hiddenNames: z.enum(['drop', 'keep']).default('keep'),
      maxFiles: count().nullable().default(null),
      maxLines: count().nullable().default(null),
      dropLlmScore: z.number().nullable().default(null),
      flakyTrials: count().nullable().default(null),
    })
    .prefault({}),
  overlap: z
    .enum(['fail', 'exclude'])
    .default('fail')
    .describe('Training tasks that are evaluated too, by id, repository and base commit, or statement'),
  gate: z
    .strictObject({
      repeats: count().default(3).describe('Gradings of the gold patch; the empty one is graded at most three times'),
      refused: z.enum(['fail', 'exclude']).default('fail'),
      width: count()
        .max(2000)
        .nullable()
        .default(null)
        .describe('Tasks gated at once; null = eight for each sandbox host that polls, sixteen at least'),
    })
    .prefault({}),
})

const scaffold = z.strictObject({
  profile: z.string().min(1).default('paper'),
  history: z.literal('full').default('full'),
  commandsPerTurn: z.literal(1).default(1),
  submit: z.strictObject({ capture: z.enum(['unstaged', 'all']).default('unstaged') }).prefault({}),
  limits: z
    .strictObject({
      commandTimeoutS: positive().default(120),
      maxTokensPerTurn: count().default(4096),
    })
    .prefault({}),
})

const sandbox = z.strictObject({
  request: z.strictObject({ cpu: positive().default(0.5), memGiB: positive().default(2) }).prefault({}),
  limit: z
    .strictObject({
      cpu: positive().default(2),
      memGiB: positive().default(8),
      pids: count().default(512),
      diskGiB: count()
        .nullable()
        .default(20)
        .describe('What a container may write, and 65,536 files for each GiB; null = no limit'),
    })
    .prefault({}),
  network: z
    .enum(['none', 'proxy'])
    .default('none')
    .describe(
      'proxy: programs in sandboxes of agents reach the hosts of `allow` and nothing else; graders never have a network',
    ),
  allow: z
    .array(z.string().regex(ALLOWED_HOST, 'expected a host name as pypi.org, *.example.org or mirror.example.org:8443'))
    .default([])
    .describe('Hosts for network: proxy; without a port 80 and 443'),
  runtime: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe('OCI runtime by the name that the engine knows, as runsc or kata; null = what the host is set to'),
})

const rollout = z.strictObject({
  sampling: samplingSchema.prefault({}),
  maxOpenEpisodes: count().default(16).describe('Episodes open at once over the whole run'),
  turnsPerStep: count().default(8).describe('Turns of one activity; 1 puts every turn into the Temporal timeline'),
  episodeTimeoutS: positive().default(3600),
  maxReplacements: z.int().min(0).default(2).describe('Replacements a group may draw for episodes lost to infra'),
})

/** A price may be 0: what is paid for elsewhere. */
const price = () => z.number().min(0)

const prices = z.strictObject({
  currency: z.string().min(1).max(8).default('USD'),
  perMillionTokens: z
    .strictObject({
      input: price(),
      cachedInput: price().nullable().default(null).describe('Null: cached tokens cost what others do'),
      output: price(),
    })
    .nullable()
    .default(null),
  machines: z
    .array(z.strictObject({ name: z.string().min(1), count: count().default(1), perHour: price() }))
    .default([])
    .describe('Rented for as long as the attempts of an evaluation run: GPUs, hosts'),
})

/** Bounds decide, never the mean: docs/statistics.md. */
const verdictRules = {
  margin: z.number().min(0).max(1).default(0.02).describe('Loss of pass@1 that is allowed'),
  confidence: z.number().min(0.5).lt(1).default(0.95),
  minGraded: z.number().min(0).max(1).default(0.95).describe('Below this share of graded attempts nothing is judged'),
}

const promotion = z.strictObject({
  gate: z
    .enum(['always', 'notWorse'])
    .default('always')
    .describe(
      'notWorse: the last policy is promoted if a loss beyond the margin is excluded, against the newest promotion, else the run’s base',
    ),
  ...verdictRules,
})

const evaluate = z.strictObject({
  attempts: count().describe('k: episodes per task'),
  tasks: count().nullable().default(null).describe('Held-out tasks used; null = the whole suite'),
  sampling: z.enum(['train', 'modelDefault']).default('train'),
  modelSampling: samplingSchema.nullable().default(null),
  maxTurns: count(),
  context: count(),
  limits: z
    .record(
      z.string().min(1, 'expected the name of an evaluation'),
      z.strictObject({ maxTurns: count(), context: count() }),
    )
    .default({})
    .describe(
      'Other limits by what was trained last (base, rft, a stage’s name): for evaluations after it and, of a stage, inside it; the last stage’s hold for rl',
    ),
  demonstration: z.boolean().default(false),
  suites: z
    .record(suiteName, suiteSource)
    .default({})
    .describe('Further suites by name: evaluated whenever data.heldOut is, except inside a stage'),
  quick: z
    .array(z.string().min(1))
    .min(1)
    .nullable()
    .default(null)
    .describe('Held-out tasks by id that evaluations inside a stage play (reinforce.evaluateEvery); null = all'),
  policy: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/, 'expected promoted, base, kept or the version of a policy')
    .default('promoted')
    .describe(
      'What `longhaul evaluate` evaluates: promoted (the newest), base, kept (every promotion that is still stored), or a version',
    ),
  compare: z
    .strictObject({
      last: z.boolean().default(true).describe('Against the last evaluation of the series'),
      baseline: z
        .string()
        .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*(?::[A-Za-z0-9][A-Za-z0-9._-]*)?$/, 'expected RUN:EVALUATION or RUN')
        .nullable()
        .default(null)
        .describe('RUN:EVALUATION, or RUN for its last evaluation'),
      ...verdictRules,
    })
    .nullable()
    .default(null)
    .describe('What an evaluation that is started alone is held against, over the tasks of both sides'),
  prices: prices.nullable().default(null).describe('Reports then show what attempts cost; null: nothing of it'),
})

/** Defaults are what OpenAI's own interface takes. */
export const chatSchema = z.strictObject({
  apiKeyVariable: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'expected the name of an environment variable')
    .nullable()
    .default(null)
    .describe('Name of an environment variable of the workers that holds the key; never the key itself'),
  requestTimeoutS: positive().max(900).default(600).describe('One request, from connect to the last byte'),
  stream: z
    .boolean()
    .default(false)
    .describe(
      'Ask for the reply as a stream: for gateways that cut a connection on which nothing comes, and models that answer in no other way',
    ),
  seed: z.boolean().default(true).describe('Send a seed; false for endpoints that refuse the field'),
  samplingFields: z
    .enum(['standard', 'all'])
    .default('standard')
    .describe('all: topK, minP and repetitionPenalty too, which OpenAI’s own interface refuses'),
  maxTokensField: z.enum(['max_tokens', 'max_completion_tokens']).default('max_tokens'),
})

const grading = z.strictObject({
  unauditedRewards: z
    .enum(['refuse', 'allow'])
    .default('refuse')
    .describe(
      'Whether tasks are played, and successes paid, whose tests no audit can run again; allow only for rows of runners other than pytest, unittest and Django',
    ),
})

const engineLaunch = z.strictObject({
  kind: z.literal('process').default('process').describe('Processes on the host of the trainer worker'),
  replicas: count().max(64).default(1),
  placement: z
    .enum(['separate', 'shared'])
    .default('separate')
    .describe(
      'shared: engines sleep through each training job (vLLM that reads policies in place, with a trainer on the GPU) or are ended before it and started after it; separate: they stay',
    ),
  host: z
    .string()
    .regex(/^[\w.:][\w.:-]*$/, 'expected an address or a name')
    .default('127.0.0.1')
    .describe('Address that engines listen on and sessions reach; any but loopback needs LONGHAUL_POLICY_API_KEY'),
  port: z
    .int()
    .min(1)
    .max(65_535)
    .nullable()
    .default(null)
    .describe('Of the first replica, the next ones count up; null: free ones, which the run keeps'),
  program: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe('What starts the engine; null: vllm, python for SGLang, the trainer’s Python for embedded'),
  arguments: z.array(z.string()).default([]).describe('Further flags: parallelism, memory, speed'),
  environment: z
    .record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'expected the name of an environment variable'), z.string())
    .default({})
    .describe('Further variables; stored with the run, so never a secret'),
  gpus: z
    .array(z.string().regex(/^[\w:,.-]+$/, 'expected the GPUs of a replica, as "0,1"'))
    .nullable()
    .default(null)
    .describe('CUDA_VISIBLE_DEVICES of each replica, as ["0,1", "2,3"]'),
  startTimeoutS: positive().max(14_400).default(1800).describe('From the start of a process to its first answer'),
})

const policyServer = z.strictObject({
  kind: z.enum(['embedded', 'vllm', 'sglang', 'chat']).default('embedded'),
  url: z
    .url({ protocol: /^https?$/ })
    .nullable()
    .default(null)
    .describe('Null: the address in LONGHAUL_POLICY_URL. For chat the base address, as https://api.example.com/v1'),
  replicas: z
    .array(z.url({ protocol: /^https?$/ }))
    .default([])
    .describe(
      'Further servers of the same kind and policies: new weights go to all, each is verified, a session stays with one',
    ),
  launch: engineLaunch
    .nullable()
    .default(null)
    .describe('Longhaul starts, restarts, parks and ends the engines itself; null: their operator does'),
  publish: z
    .enum(['restart', 'reload', 'manual'])
    .nullable()
    .default(null)
    .describe(
      'vllm and sglang: new weights by restart or read in place; manual: by a restart of their operator, also the default without launch. With launch the default is in place, and by restart where an engine cannot. The embedded server always reads in place',
    ),
  leaseS: positive().default(3600).describe('How long the embedded server keeps a policy that a run does not ask for'),
  patienceS: positive().default(900).describe('A server that does not answer for this long ends the run'),
  chat: chatSchema.nullable().default(null).describe('Only with kind: chat; model.base is then the endpoint’s name'),
})

/** Limits of mean, deviation, effective samples, chi² and KL are those of verl's guide to rollout correction; the others are ours. */
const alarms = z.strictObject({
  onAlarm: z
    .enum(['pause', 'warn'])
    .default('pause')
    .describe('pause: the run waits before its next iteration until an operator resumes it; warn: the report shows it'),
  kl: positive().nullable().default(0.1).describe('Largest |k1| and |k3| between trainer and sampler, nats a token'),
  logprobGap: positive().nullable().default(null).describe('Largest |Δ log p| of one token'),
  importanceMean: z
    .tuple([z.number().min(0), positive()])
    .default([0.5, 2])
    .describe('Mean importance weight'),
  importanceStd: positive().nullable().default(1),
  effectiveSamples: z.number().min(0).max(1).nullable().default(0.3).describe('Least effective share of the samples'),
  chi2: positive().nullable().default(1),
  capped: z.number().min(0).max(1).nullable().default(0.1).describe('Largest share of tokens with a cut weight'),
  masked: z.number().min(0).max(1).nullable().default(0.3).describe('Largest share of tokens left out'),
  // What is normal depends on model, tasks and stage: these have no limit that would be right for all.
  gradNorm: positive().nullable().default(null).describe('Largest gradient norm before clipping, in every stage'),
  entropy: z.number().min(0).nullable().default(null).describe('Least entropy of the policy, nats a token'),
  entropyShare: z
    .number()
    .min(0)
    .max(1)
    .nullable()
    .default(null)
    .describe('Least share of the entropy at the first optimizer step of the stage'),
  fineTuningLoss: positive().nullable().default(null).describe('Largest loss of a step of fine-tuning, nats a token'),
  divergedKl: positive()
    .nullable()
    .default(1)
    .describe('|k1| beyond this ends the stage as diverged: its policy is not published'),
})

const trainer = z.strictObject({
  launcher: z.enum(['process', 'torchrun', 'docker', 'slurm', 'kubernetes']).default('process'),
  docker: dockerLauncher.nullable().default(null),
  slurm: slurmLauncher.nullable().default(null),
  kubernetes: kubernetesLauncher.nullable().default(null),
  device: z.enum(['cpu', 'cuda']).default('cpu'),
  nodes: count().default(1),
  ranksPerNode: count().default(1),
  contextParallel: count().default(1),
  maxTokensPerMicro: count().default(8192),
  recompute: z
    .enum(['none', 'full', 'save_attention'])
    .nullable()
    .default(null)
    .describe(
      'Activation checkpointing: keep layer inputs only, or attention outputs too. Null: save_attention on a GPU from a context of 32,768 tokens on, else none',
    ),
  offload: z
    .enum(['none', 'activations', 'optimizer', 'both'])
    .default('none')
    .describe('What waits on the host; activations need recompute, the optimizer a GPU'),
  checkpoint: z
    .strictObject({
      everySteps: count().default(1).describe('Optimizer steps between two checkpoints of a job, at least'),
      everyS: z.number().min(0).default(0).describe('Seconds between them, at least'),
    })
    .optional(),
  deterministic: z.boolean().default(true),
  timeoutS: positive().default(3600),
  stallS: positive().default(300).describe('No progress for this long ends the job'),
  exportDtype: z.enum(['float32', 'bfloat16']).default('float32'),
  alarms: alarms.prefault({}),
})

/** Everything a recipe file may say. */
export const recipeFileSchema = z.strictObject({
  seed: z.int().min(0).max(0xffff_ffff).default(1).describe('Every seed and order derives from it'),
  model,
  data,
  scaffold: scaffold.prefault({}),
  sandbox: sandbox.prefault({}),
  rollout: rollout.prefault({}),
  rft: rftSchema.nullable().default(null),
  reinforce: reinforceSchema.nullable().default(null),
  evaluate,
  grading: grading.prefault({}),
  promotion: promotion.prefault({}),
  policyServer: policyServer.prefault({}),
  trainer: trainer.prefault({}),
  trackers: z
    .array(trackerSchema)
    .default([])
    .describe('Where metrics go beside the records; a tracker that is away never holds or fails a run'),
}) satisfies z.ZodType<Omit<Recipe, 'name'>>
