/**
 * Makes the base policy of recipes/repair.yaml, from nothing but this repository:
 *
 *   npm run policy:repair-base -- [--work DIR] [--out DIR] [--python PYTHON] [--count 2000] [--held-out 64] [-- --steps 1700 …]
 *
 * 1. plays the scripted solver on tasks of `half-renamed` through the product's runner, tools and texts (Docker engine of DOCKER_HOST, or one of its own),
 * 2. trains tokenizer and model on that (`longhaul_trainer.make_repair_base`).
 * What is in DIR already is used: an interrupted command goes on where it was, collection by collection and checkpoint by checkpoint.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { randomFrom } from '../../src/adapters/datasets/synthetic/compose.ts'
import { ROOTS, type Split } from '../../src/adapters/datasets/synthetic/half-renamed.ts'
import { findEngine } from '../../bench/support/find-engine.ts'
import { synthesizeTask } from '../../src/adapters/datasets/synthetic/synthesize.ts'
import type { SandboxHandle } from '../../src/contracts/sandbox.types.ts'
import { scaffoldProfile } from '../../src/scaffold/profiles.ts'
import { findOrMakePython } from '../../src/stack/setup/set-up.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { collect } from '../demo-base/collect.ts'
import { type Demonstration, playScript } from '../demo-base/demonstration.ts'
import { type Lanes, openLanes } from '../demo-base/lanes.ts'
import { fixedTexts } from './fixed-texts.ts'
import { rootsOf } from './roots.ts'
import { solveRepair } from './solver.ts'

/** Of the synthetic family; recipes must use others, so that the base has seen no task of any run. */
const SEED = 7_003
/** More lanes than cores only wait for each other. */
const LANES = 2
/** The longest script, with every wrong turn, is shorter. */
const MAX_TURNS = 24
const COLLECT_LIMIT_MS = 3 * 60 * 60_000

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    work: { type: 'string', default: '.cache/repair-base' },
    out: { type: 'string', default: fileURLToPath(new URL('model', import.meta.url)) },
    python: { type: 'string' },
    count: { type: 'string', default: '2000' },
    'held-out': { type: 'string', default: '64' },
  },
})

const work = resolve(values.work)
const profile = scaffoldProfile('paper')
const signal = AbortSignal.timeout(COLLECT_LIMIT_MS)
const log = (line: string): void => console.error(line)

await mkdir(work, { recursive: true })
await writeFile(join(work, 'fixed.json'), JSON.stringify(fixedTexts(profile)))
await writeFile(join(work, 'roots.json'), JSON.stringify(ROOTS.train))
await collectOnce('train', 'train', Number(values.count))
await collectOnce('heldout', 'eval', Number(values['held-out']))
await trainModel()

async function collectOnce(name: string, split: Split, count: number): Promise<void> {
  const path = join(work, `${name}.jsonl`)
  if (existsSync(path)) return log(`${name}: ${path} is there`)
  const { stop } = await findEngine('repair-base')
  const lanes = await openLanes({ count: LANES, profile, cacheDir: stackPaths().cacheDir, log, signal })
  try {
    const play = (sandbox: SandboxHandle, index: number): Promise<Demonstration> =>
      demonstrateRepair(lanes, sandbox, split, index)
    const result = await collect({ lanes, count, play, path: `${path}.part`, log })
    await rename(`${path}.part`, path)
    log(`${name}: ${JSON.stringify(result)}`)
    if (result.solved < count) throw new Error(`Expected the solver to solve all ${count} tasks, got ${result.solved}`)
  } finally {
    await lanes.close()
    await stop()
  }
}

async function demonstrateRepair(
  lanes: Lanes,
  lane: SandboxHandle,
  split: Split,
  index: number,
): Promise<Demonstration> {
  const { row, composed, repoTar } = synthesizeTask({ family: 'half-renamed', seed: SEED, split, index })
  const sandbox = await lanes.load(lane, await repoTar(), signal)
  const script = solveRepair({ task: composed, random: randomFrom(`repair demonstration/${SEED}/${split}/${index}`) })
  const move = () => {
    const next = script.next()
    if (next.done === true) throw new Error(`Expected ${row.instance_id} to be submitted by its script`)
    return next.value
  }
  const { host } = lanes
  const { segments, turns, submitted, after } = await playScript({
    host,
    sandbox,
    profile,
    row,
    maxTurns: MAX_TURNS,
    move,
    signal,
  })
  const { patch } = await host.capture(sandbox, { mode: 'unstaged', after }, signal)
  const solved = submitted && Buffer.from(patch).toString('utf8') === row.patch
  return { task: row.instance_id, segments, turns, solved, ...rootsOf(composed) }
}

async function trainModel(): Promise<void> {
  const card = join(work, 'base.json')
  const files = ['--work', work, '--out', resolve(values.out), '--card', card]
  const child = spawn(
    values.python ?? (await findOrMakePython()),
    ['-m', 'longhaul_trainer.make_repair_base', ...files, ...positionals],
    {
      cwd: fileURLToPath(new URL('../../trainer', import.meta.url)),
      stdio: 'inherit',
    },
  )
  const [code] = (await once(child, 'exit')) as [number | null]
  if (code !== 0) throw new Error(`Expected the training to end with 0, got ${code}; run the command again to go on`)
  if (existsSync(card)) await writeFile(join(resolve(values.out), '..', 'base.json'), await readFile(card))
}
