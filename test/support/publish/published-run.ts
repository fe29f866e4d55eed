/** A small model, a policy that a run trained from it, and the run's records: the state of a store before a model is published. */
import { cp, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { importBasePolicy } from '../../../src/adapters/trainer-job/job/policy-directory.ts'
import type { ArtifactStore } from '../../../src/contracts/artifacts.types.ts'
import { policyKeys, runKeys, suiteKeys } from '../../../src/contracts/keys.ts'
import type { PolicyRef } from '../../../src/contracts/policy.types.ts'
import type { Recipe } from '../../../src/contracts/recipe.types.ts'
import { sha256Hex } from '../../../src/platform/hash.ts'
import { type Attempt, makeEvaluation } from '../evaluation-records.ts'
import { runPython } from '../python.ts'
import { makeTrainingRecipe } from '../training-records.ts'
import { putPart } from '../record-examples.ts'

/** The trainer writes it beside the weights. */
export const PRIVATE_HOST = 'gpu-17.internal.example'
/** Breaks out of YAML, table cells, HTML and lines. */
export const HOSTILE =
  'x"\n---\nlicense: mit\n| <img src=x onerror=alert(1)> | [a](javascript:b) `c` \u202e\ud800 @team'

const COMMIT_OF_DATA = '5e4a1f8b5c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f'

/** Complete files with arbitrary weights, which no model can compute with. */
export async function writeModelFiles(
  directory: string,
  { config = {}, metadata = {} }: { config?: object; metadata?: Record<string, string> } = {},
): Promise<void> {
  await mkdir(directory, { recursive: true })
  await writeFile(
    join(directory, 'config.json'),
    JSON.stringify({ vocab_size: 8, max_position_embeddings: 512, ...config }),
  )
  await writeFile(join(directory, 'tokenizer.json'), '{"a": "/root/vocabulary"}')
  for (const name of ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors']) {
    await writeFile(join(directory, name), safetensors(name, metadata))
  }
  await writeFile(join(directory, 'model.safetensors.index.json'), '{"weight_map": {}}')
}

function safetensors(name: string, metadata: Record<string, string>): Buffer {
  const values = new Float32Array(25_000).fill(name.charCodeAt(10))
  const header = Buffer.from(
    JSON.stringify({
      __metadata__: { format: 'pt', ...metadata },
      weight: { dtype: 'F32', shape: [values.length], data_offsets: [0, values.byteLength] },
    }),
  )
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(header.length))
  return Buffer.concat([length, header, Buffer.from(values.buffer)])
}

export interface PublishableInput {
  store: ArtifactStore
  /** A model directory. */
  model: string
  run: string
  /** Attempts at each held-out task. */
  attempts?: Attempt[][]
  /** Names and texts in the records. @default harmless ones */
  text?: string
  version?: string
}

/** @returns the policy of the run; its base is stored too */
export async function storePublishable(input: PublishableInput): Promise<{ base: PolicyRef; policy: PolicyRef }> {
  const {
    store,
    model,
    run,
    attempts = [
      [1, 0],
      [1, 1],
      [0, 0],
    ],
    text = 'plain',
    version = 'v000042-1a2b3c4d',
  } = input
  const base = await importBasePolicy({ store, directory: model })
  const directory = store.path(policyKeys.directory(version))
  await cp(fileURLToPath(store.weights.local(base).uri), directory, { recursive: true })
  await writeFile(join(directory, 'canary.safetensors'), safetensors('canary-0000000', {}))
  const attempt = { run, host: PRIVATE_HOST, paths: { input: '/data/private/input' } }
  const manifestSha256 = await seal(directory)
  await writeFile(join(directory, 'attempt.json'), JSON.stringify(attempt))
  const made: PolicyRef = {
    version,
    uri: pathToFileURL(directory).href,
    manifestSha256,
    globalStep: 42,
    checkpointUri: null,
    checkpointSha256: null,
  }
  const policy = await store.weights.keep({ policy: made })
  await putPart(store, policyKeys.ref(version), policy)
  await putPart(store, runKeys.claim(run), {
    schema: 'longhaul.run/1',
    run,
    kind: 'train',
    workflowId: `train/${run}`,
  })
  const plain = makeTrainingRecipe()
  const recipe: Recipe = { ...plain, name: text, model: { ...plain.model, base: '/home/someone/private/models/tiny' } }
  await putPart(store, runKeys.recipe(run), { schema: 'longhaul.recipe/1', hash: 'cd'.repeat(32), recipe })
  await putPart(store, runKeys.policy(run, 'base'), base)
  for (const [iteration, stage] of ['rft', 'dapo-1', 'dapo-1'].entries()) {
    const made = iteration === 2 ? version : `v0000${iteration + 1}0-1a2b3c4d`
    await store.claimRecord(policyKeys.ref(made), { ...policy, version: made, globalStep: 14 * (iteration + 1) })
    const steps = Array.from({ length: 14 }, (_, step) => ({ step }))
    const record = { schema: 'longhaul.training/1', stage, iteration, slice: 0, policy: made, steps, alarms: [] }
    await putPart(store, runKeys.training(run, stage, iteration, 0), record)
  }
  await storeSuite(store, run, text)
  const names = attempts.map((of, index) => ({ taskId: `held-${index}`, attempts: of }))
  const evaluation = {
    ...makeEvaluation({ run, name: 'rl', policy: version, tasks: names, unaudited: 'allow' }),
    suite: 'ef'.repeat(32),
  }
  const conditions = {
    scaffold: text,
    demonstration: false,
    sampling: {} as never,
    limits: { maxTurns: 6, contextTokens: 256 } as never,
    gradingProfiles: ['fork-4.0.3'],
  }
  await putPart(store, runKeys.evaluation(run, 'rl'), { ...evaluation, conditions })
  return { base, policy }
}

/** A tiny policy that the real trainer trained with LoRA, whose base came from a hub. */
export async function storeAdapted({
  store,
  root,
  origin,
}: {
  store: ArtifactStore
  root: string
  /** `OWNER/NAME@COMMIT` */
  origin: string
}): Promise<PolicyRef> {
  const script =
    'import sys, pathlib, json; from tiny_policy import write_tiny_policy;' +
    'from job_files import make_config, make_draft, make_job; from longhaul_trainer.step.command import step;' +
    'root = pathlib.Path(sys.argv[1]); base = root / "tiny"; write_tiny_policy(base); (root / "job").mkdir();' +
    'config = make_config("rft", epochs=1, lora={"rank": 4, "alpha": 32.0});' +
    'job = make_job(root / "job", base, make_draft(base, stage="rft"), config);' +
    'assert step(job.write(), dry_run=False) == 0; print(json.dumps([str(job.policy), str(job.checkpoint)]))'
  const said = (await runPython(script, root)).split('\n').at(-1) ?? ''
  const [directory = '', checkpoint = ''] = JSON.parse(said) as string[]
  await writeFile(join(root, 'tiny', 'longhaul.json'), JSON.stringify({ chat_format: 'chatml', source: { origin } }))
  const base = await importBasePolicy({ store, directory: join(root, 'tiny') })
  const policy: PolicyRef = {
    version: basename(directory),
    uri: pathToFileURL(directory).href,
    manifestSha256: sha256Hex(await readFile(join(directory, 'MANIFEST.json'))),
    globalStep: 1,
    checkpointUri: pathToFileURL(checkpoint).href,
    checkpointSha256: sha256Hex(await readFile(join(checkpoint, 'MANIFEST.json'))),
  }
  const run = 'test'
  await putPart(store, policyKeys.ref(policy.version), policy)
  const plain = makeTrainingRecipe()
  const recipe = { ...plain, model: { ...plain.model, train: 'lora', lora: { rank: 4, alpha: 32 } } }
  await putPart(store, runKeys.recipe(run), { schema: 'longhaul.recipe/1', hash: 'cd'.repeat(32), recipe })
  await putPart(store, runKeys.policy(run, 'base'), base)
  return policy
}

async function storeSuite(store: ArtifactStore, run: string, text: string): Promise<void> {
  const train = 'ab'.repeat(32)
  const held = 'ef'.repeat(32)
  const origin = { schema: 'longhaul.suite-origin/1', revision: COMMIT_OF_DATA, split: text, files: [] }
  await store.claimRecord(suiteKeys.origin(train), {
    ...origin,
    dataset: 'nebius/SWE-rebench',
    filters: [{ filter: text, kept: 2 }],
  })
  await store.claimRecord(suiteKeys.origin(held), { ...origin, dataset: text, filters: [] })
  await store.claimRecord(suiteKeys.row(train, 'one'), { schema: 'longhaul.row/1', row: { license_name: text } })
  for (const [stage, suite, taskIds] of [
    ['dapo-1', train, ['one', 'two', 'three']],
    ['eval-rl', held, ['held-0', 'held-1', 'held-2']],
  ] as const) {
    const plan = { schema: 'longhaul.plan/1', run, stage, iteration: 0, suite, groupSize: 2, taskIds }
    await putPart(store, runKeys.plan(run, stage, 0), plan)
  }
}

/** Seals a directory like the trainer. */
async function seal(directory: string): Promise<string> {
  const files: object[] = []
  for (const path of (await readdir(directory)).toSorted()) {
    if (path === 'MANIFEST.json' || path === 'COMMITTED') continue
    const bytes = await readFile(join(directory, path))
    files.push({ path, bytes: (await stat(join(directory, path))).size, sha256: sha256Hex(bytes) })
  }
  const manifest = JSON.stringify({ schema: 'longhaul.manifest/1', kind: 'policy', dtype: 'float32', files })
  await writeFile(join(directory, 'MANIFEST.json'), manifest)
  await writeFile(join(directory, 'COMMITTED'), `${sha256Hex(manifest)}\n`)
  return sha256Hex(manifest)
}
