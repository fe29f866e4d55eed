import assert from 'node:assert/strict'
import { mkdtemp, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { makeTrainingRecipe } from '../../../../test/support/training-records.ts'
import type { PolicyRef } from '../../../contracts/policy.types.ts'
import type { Recipe } from '../../../contracts/recipe.types.ts'
import { createDirectoryStore } from '../../artifacts/directory-store.ts'
import { JOB_PLAN } from '../batch/batch-writer.ts'
import { prepareJob } from './job-spec.ts'
import { findWindow } from './window-job.ts'

/**
 * What the trainer is given, word for word: `trainer/tests/test_contract.py` holds this file against the trainer's models and
 * refuses every field of it that is missing, renamed or of another type. `LONGHAUL_WRITE_FIXTURES=1 node --test` writes it anew.
 */
const WRITTEN = new URL('../../../../trainer/tests/fixtures/written-jobs.json', import.meta.url)

/** Between them they write every field that this side can write. */
const JOBS: {
  name: string
  kind: 'rft' | 'dapo'
  continues?: true
  threads?: number
  reference?: true
  change: (recipe: Recipe) => void
}[] = [
  { name: 'rft', kind: 'rft', change: () => undefined },
  {
    name: 'rft of adapters on GPUs',
    kind: 'rft',
    continues: true,
    threads: 2,
    change: ({ model, rft, trainer }) => {
      model.lora = { rank: 16, alpha: 32 }
      model.rope = { type: 'yarn', factor: 4, originalMax: 32_768 }
      Object.assign(rft?.optim ?? {}, { states: 'bfloat16', schedule: 'cosine' })
      Object.assign(trainer, {
        device: 'cuda',
        nodes: 2,
        ranksPerNode: 8,
        contextParallel: 4,
        recompute: 'save_attention',
        offload: 'both',
        checkpoint: { everySteps: 2, everyS: 600 },
        exportDtype: 'bfloat16',
      })
    },
  },
  { name: 'dapo', kind: 'dapo', continues: true, change: () => undefined },
  {
    name: 'dapo with each correction',
    kind: 'dapo',
    change: ({ reinforce }) => {
      const loss = { dualClip: 3, behaviourCorrection: 'tis', sequenceMask: { low: 0.99, high: 1.01 } }
      Object.assign(reinforce?.loss ?? {}, loss)
    },
  },
  {
    name: 'dapo with IcePop',
    kind: 'dapo',
    change: ({ reinforce }) => Object.assign(reinforce?.loss ?? {}, { behaviourCorrection: 'icepop' }),
  },
  {
    name: 'dapo against the sampler',
    kind: 'dapo',
    change: ({ reinforce }) => Object.assign(reinforce ?? {}, { oldLogprobs: 'sampler' }),
  },
  {
    name: 'dr grpo towards a reference',
    kind: 'dapo',
    reference: true,
    change: ({ reinforce }) => {
      const kl = { coefficient: 0.05, reference: 'start' }
      Object.assign(reinforce?.loss ?? {}, {
        algorithm: 'drGrpo',
        entropy: 0.01,
        behaviourCorrection: 'sequenceTis',
        kl,
      })
    },
  },
  {
    name: 'gspo',
    kind: 'dapo',
    change: ({ reinforce }) => {
      Object.assign(reinforce?.loss ?? {}, { algorithm: 'gspo', behaviourCorrection: 'geometricTis' })
    },
  },
  {
    name: 'dpo',
    kind: 'dapo',
    reference: true,
    change: ({ reinforce }) => {
      Object.assign(reinforce?.loss ?? {}, { algorithm: 'dpo', kl: { coefficient: 0.1, reference: 'start' } })
      Object.assign(reinforce?.stages[0] ?? {}, { clip: undefined })
    },
  },
  {
    name: 'cispo with a budget of tokens',
    kind: 'dapo',
    change: ({ reinforce }) => {
      Object.assign(reinforce?.loss ?? {}, { algorithm: 'cispo' })
      Object.assign(reinforce?.stages[0] ?? {}, { batch: { tokens: 4096 } })
    },
  },
]

test('written jobs equal those that the trainer’s models last accepted', async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'longhaul-written-jobs-'))
  t.after(() => rm(root, { recursive: true }))
  const written = await Promise.all([...JOBS.map((job) => writeJob(root, job)), writeWindowJob(root)])
  // Nothing of this machine: hashes are of what the files say.
  const text = `${JSON.stringify(written, null, 1).replaceAll(root, '/artifacts')}\n`
  if (process.env['LONGHAUL_WRITE_FIXTURES'] === '1') await writeFile(WRITTEN, text)
  assert.deepEqual(JSON.parse(text), JSON.parse(await readFile(WRITTEN, 'utf8')))
})

async function writeJob(root: string, { name, kind, continues, threads, reference, change }: (typeof JOBS)[number]) {
  const store = createDirectoryStore({ root: `${root}/store` })
  const recipe = structuredClone(makeTrainingRecipe())
  change(recipe)
  const run = name.replaceAll(' ', '-')
  const batch = await store.putRecord(`runs/${run}/batch/batch.json`, { minibatches: [{}, {}, {}] })
  await store.putRecord(`runs/${run}/batch/${JOB_PLAN}`, { schema: 'longhaul.job-plan/1', totalSteps: 12 })
  const stage = kind === 'rft' ? 'rft' : 'dapo-1'
  const policy = continues === true ? CONTINUED : BASE
  const place = { run, stage, kind, iteration: 2, slice: 1 }
  const job = await prepareJob({
    store,
    recipe,
    job: { ...place, batch, policy },
    ...(threads === undefined ? {} : { threads }),
    ...(reference === undefined ? {} : { reference: BASE }),
  })
  const config = await readFile(join(job.jobDirectory, 'config.json'), 'utf8')
  // Each launch adds these two.
  return { name, spec: { ...job.spec, attempt: 1, fence: 1 }, config: JSON.parse(config) as unknown }
}

async function writeWindowJob(root: string) {
  const store = createDirectoryStore({ root: `${root}/store` })
  const directory = `${root}/roped`
  await mkdir(directory)
  await writeFile(`${directory}/tokenizer.json`, '{}')
  const rope = { type: 'yarn', rope_type: 'yarn', factor: 4, original_max_position_embeddings: 512 }
  const config = { vocab_size: 8, max_position_embeddings: 2048, rope_scaling: rope }
  await writeFile(`${directory}/config.json`, JSON.stringify(config))
  const policy = { ...BASE, uri: pathToFileURL(directory).href }
  const found = await findWindow({ store, trainer: makeTrainingRecipe().trainer, policy, threads: 1 })
  assert.ok(found !== null && 'job' in found)
  return { name: 'window', spec: { ...found.job.spec, attempt: 1, fence: 1 }, config: null }
}

const BASE: PolicyRef = {
  version: 'v000000-aaaaaaaa',
  uri: 'file:///models/base',
  manifestSha256: 'a'.repeat(64),
  globalStep: 0,
  checkpointUri: null,
  checkpointSha256: null,
}

const CONTINUED: PolicyRef = {
  version: 'v000007-bbbbbbbb',
  uri: 'file:///models/trained',
  manifestSha256: 'b'.repeat(64),
  globalStep: 7,
  checkpointUri: 'file:///models/checkpoint',
  checkpointSha256: 'c'.repeat(64),
}
