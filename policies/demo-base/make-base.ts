/**
 * Makes the demo's base policy again, from nothing but this repository:
 *
 *   node policies/demo-base/make-base.ts --work DIR --out policies/demo-base/model --python PYTHON
 *
 * 1. collects demonstrations of a scripted solver through the product's runner, tools and texts (Docker engine needed),
 * 2. trains tokenizer and model on them (`longhaul_trainer.make_base`).
 * Demonstrations and the model between the stages are used as they are when found in DIR, so that the tail can be tuned
 * without starting over. The demo and the
 * tests never run this: they use the files that it made.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { scaffoldProfile } from '../../src/scaffold/profiles.ts'
import { collect, noisyPlayer } from './collect.ts'
import { openLanes } from './lanes.ts'

/** Of the synthetic family; recipes must use others, so that the base has seen no task of any run. */
const SEED = 7_001
/** More lanes than cores only wait for each other. */
const LANES = 2

const COLLECTIONS = [
  { name: 'clean', count: 5_000, offset: 0, noiseStrength: 0.05 },
  { name: 'noisy', count: 2_400, offset: 100_000, noiseStrength: 1.3 },
] as const

const { values } = parseArgs({
  options: {
    work: { type: 'string', default: '.cache/demo-base' },
    out: { type: 'string', default: fileURLToPath(new URL('model', import.meta.url)) },
    python: { type: 'string', default: 'python3' },
  },
})

const work = resolve(values.work)
const trainingCard = join(work, 'training.json')
const signal = AbortSignal.timeout(90 * 60_000)
const log = (line: string): void => console.error(line)

await mkdir(work, { recursive: true })
for (const collection of COLLECTIONS) await collectOnce(collection)
await trainModel()
await writeCard()

async function collectOnce({ name, ...options }: (typeof COLLECTIONS)[number]): Promise<void> {
  const path = demonstrations(name)
  if (existsSync(path)) return log(`${name}: ${path} is there`)
  const profile = scaffoldProfile('demo')
  const lanes = await openLanes({ count: LANES, profile, cacheDir: work, log, signal })
  try {
    const play = noisyPlayer({ lanes, profile, seed: SEED, ...options, signal })
    const result = await collect({ lanes, count: options.count, play, path: `${path}.part`, log })
    await writeFile(join(work, `${name}.json`), `${JSON.stringify({ seed: SEED, ...options, ...result }, null, 1)}\n`)
    await rename(`${path}.part`, path)
    log(`${name}: ${JSON.stringify(result)}`)
  } finally {
    await lanes.close()
  }
}

async function trainModel(): Promise<void> {
  const files = ['--clean', demonstrations('clean'), '--noisy', demonstrations('noisy')]
  const outputs = ['--out', resolve(values.out), '--clean-model', join(work, 'clean-model'), '--card', trainingCard]
  const child = spawn(values.python, ['-m', 'longhaul_trainer.make_base', ...files, ...outputs], {
    cwd: fileURLToPath(new URL('../../trainer', import.meta.url)),
    stdio: 'inherit',
  })
  const [code] = (await once(child, 'exit')) as [number | null]
  if (code !== 0) throw new Error(`Expected the training to end with 0, got ${code}`)
}

/** How the base was made, beside the model; `evaluate.ts --card` adds how it scores. */
async function writeCard(): Promise<void> {
  const read = async (path: string): Promise<object> => JSON.parse(await readFile(path, 'utf8'))
  const collections = await Promise.all(
    COLLECTIONS.map(async ({ name }) => ({ name, ...(await read(join(work, `${name}.json`))) })),
  )
  const card = { ...(await read(trainingCard)), demonstrations: collections, evaluations: {} }
  await writeFile(join(resolve(values.out), '..', 'base.json'), `${JSON.stringify(card, null, 1)}\n`)
}

function demonstrations(name: string): string {
  return join(work, `${name}.jsonl`)
}
