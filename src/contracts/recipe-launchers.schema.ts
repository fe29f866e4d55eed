/** Options of the launchers that run training jobs elsewhere than in a process of the trainer worker. */
import { z } from 'zod'
import type { DockerLauncherRecipe, KubernetesLauncherRecipe, SlurmLauncherRecipe } from './recipe.types.ts'
import { count, positive } from './recipe-parts.schema.ts'

const path = () => z.string().startsWith('/')
const word = () => z.string().regex(/^[\w.@/-]+$/)

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
    .array(z.string().regex(/^--[^\n]+$/))
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
