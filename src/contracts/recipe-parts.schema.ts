/** Pieces that several sections of a recipe share. */
import { z } from 'zod'
import type { SamplingOptions } from './episodes.types.ts'
import { NEUTRAL_SAMPLING } from './neutral-sampling.ts'
import type { TrackerRecipe } from './trackers.types.ts'
import type {
  OptimizerRecipe,
  RftRecipe,
  DockerLauncherRecipe,
  KubernetesLauncherRecipe,
  SlurmLauncherRecipe,
} from './recipe.types.ts'

/** An integer ≥ 1. */
export const count = () => z.int().min(1)
/** A finite number > 0. */
export const positive = () => z.number().gt(0)
const share = () => z.number().min(0).max(1)

/** Defaults are neutral decoding. */
export const samplingSchema = z.strictObject({
  temperature: z.number().min(0).default(NEUTRAL_SAMPLING.temperature),
  topP: z.number().gt(0).max(1).default(NEUTRAL_SAMPLING.topP),
  topK: z.int().min(-1).default(NEUTRAL_SAMPLING.topK).describe('−1 = off'),
  minP: share().default(NEUTRAL_SAMPLING.minP),
  repetitionPenalty: positive().default(NEUTRAL_SAMPLING.repetitionPenalty),
  presencePenalty: z.number().min(-2).max(2).default(NEUTRAL_SAMPLING.presencePenalty),
  frequencyPenalty: z.number().min(-2).max(2).default(NEUTRAL_SAMPLING.frequencyPenalty),
}) satisfies z.ZodType<SamplingOptions>

/** Everything but the rate has the paper's value as default. */
export const optimizerSchema = z.strictObject({
  name: z.literal('adamw').default('adamw'),
  lr: positive(),
  betas: z.tuple([share(), share()]).default([0.9, 0.999]),
  eps: positive().default(1e-8),
  weightDecay: z.number().min(0).default(0.1),
  gradClip: positive().default(1),
  schedule: z.enum(['constant', 'linear', 'cosine']).default('constant'),
  warmupSteps: z.int().min(0).default(0),
  states: z.enum(['float32', 'bfloat16']).default('float32').describe('How both moments are kept between updates'),
  endLr: z.number().min(0).default(0).describe('Where a linear or cosine schedule ends'),
}) satisfies z.ZodType<OptimizerRecipe>

/** What addresses of Weights & Biases can carry. */
const wandbName = () =>
  z.string().regex(/^[^/\\#?%:\s]{1,128}$/, 'expected at most 128 characters without spaces and / \\ # ? % :')

/** Addresses without a user in them: a recipe is stored, shown and hashed. */
export const trackerSchema = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('mlflow'),
    url: z.url({ protocol: /^https?$/ }).describe('The tracking server’s address, without a user or a token in it'),
    experiment: z.string().min(1).max(200).describe('Made where the server has none of that name'),
    tokenVariable: z
      .string()
      .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'expected the name of an environment variable')
      .nullable()
      .default(null)
      .describe('Name of an environment variable of the workers that holds a bearer token; never the token itself'),
  }),
  z.strictObject({
    kind: z.literal('tensorboard'),
    directory: z
      .string()
      .regex(/^\//, 'expected an absolute path')
      .describe(
        'Absolute path that trainer and artifact workers share; event files of a run lie in a folder of its name',
      ),
  }),
  z.strictObject({
    kind: z.literal('wandb'),
    project: wandbName().describe(
      'Made at the first upload where the server has none of that name; without spaces and / \\ # ? % :',
    ),
    entity: wandbName()
      .nullable()
      .default(null)
      .describe('Team or user that the files name; null = the default of the user who uploads them'),
    directory: z
      .string()
      .regex(/^\//, 'expected an absolute path')
      .describe(
        'Absolute path that trainer and artifact workers share; offline runs lie in its folder wandb, for wandb sync',
      ),
  }),
]) satisfies z.ZodType<TrackerRecipe>

/** Rejection fine-tuning as a recipe states it. */
export const rftSchema = z.strictObject({
  tasks: count().nullable().default(null).describe('Tasks sampled from the training suite; null = all'),
  rolloutsPerTask: count(),
  demonstration: z.boolean().default(false).describe('Show the scaffold’s worked example while collecting'),
  trainWithDemonstration: z.boolean().default(false),
  maxTurns: count(),
  context: count(),
  keep: z.literal('resolved').default('resolved'),
  maxPerTask: count().nullable().default(null),
  mask: z
    .strictObject({
      observations: z.literal(0).default(0),
      formatErrorTurns: z.union([z.literal(0), z.literal(1)]).default(0),
      toolErrorTurns: z.literal(1).default(1),
    })
    .prefault({}),
  optim: optimizerSchema,
  epochs: count().default(1),
  batch: count().describe('Trajectories per optimizer step'),
  maxSteps: count().nullable().default(null),
  stepsPerJob: count().default(50).describe('Optimizer steps of one training job'),
}) satisfies z.ZodType<RftRecipe>

/** Options of the launchers that run training jobs elsewhere than in a process of the trainer worker. */

const path = () => z.string().startsWith('/', 'expected an absolute path')
const word = () => z.string().regex(/^[\w.@/-]+$/, 'expected letters, digits and . _ @ / -')

export const dockerLauncher = z.strictObject({
  image: z.string().min(1),
  python: z.string().min(1).default('python3').describe('Interpreter inside the container'),
  mounts: z.array(path()).default([]).describe('Directories of the host at the same path, read-only'),
  gpus: z.boolean().default(false),
  shmGiB: positive().default(1),
}) satisfies z.ZodType<DockerLauncherRecipe>

export const slurmLauncher = z.strictObject({
  partition: word().nullable().default(null),
  account: word().nullable().default(null),
  qos: word().nullable().default(null),
  gpusPerNode: count().nullable().default(null),
  cpusPerTask: count().nullable().default(null),
  memory: word().nullable().default(null).describe("Per node, in sbatch's words, as 500G"),
  python: path().nullable().default(null).describe("Null: the worker's own interpreter, on a shared file system"),
  extra: z
    .array(z.string().regex(/^--[^\n]+$/, 'expected an option of sbatch on one line, as --exclusive'))
    .default([])
    .describe('Further options of sbatch'),
}) satisfies z.ZodType<SlurmLauncherRecipe>

export const kubernetesLauncher = z.strictObject({
  namespace: word().default('default'),
  image: z.string().min(1),
  python: z.string().min(1).default('python3'),
  claim: z.string().min(1).describe('PersistentVolumeClaim, ReadWriteMany, that holds the artifacts'),
  mountPath: path().describe('Where the claim is mounted: the artifact directory or one above it'),
  gpusPerNode: z.int().min(0).default(0),
  cpus: positive().default(4),
  memoryGiB: positive().default(16),
  shmGiB: positive().default(8),
  serviceAccount: z.string().nullable().default(null),
  runAsUser: count().default(1000).describe('Never root; must be able to write where the workers write'),
  runAsGroup: count().default(1000).describe('Owns the claim too, where the volume can be given to a group'),
  nodeSelector: z.record(z.string(), z.string()).default({}),
}) satisfies z.ZodType<KubernetesLauncherRecipe>
