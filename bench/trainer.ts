/**
 * The cost of a training step by phase, of saving and reading its state, and the planner's prediction, on this machine's CPU or GPU:
 * random weights and rows, one process per shape.
 *
 *   npm run bench:trainer -- [--device cpu] [--out bench/results/trainer-cpu.json]
 *
 * Times are for this machine under the recorded load. Machine-independent expectations are asserted as relations between two shapes,
 * both measured and predicted; exit 3 if one does not hold.
 */
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findOrMakePython } from '../src/stack/setup/set-up.ts'
import { benchArguments } from './support/arguments.ts'
import { endWith2OnError } from './support/conclude.ts'
import { versions } from './support/versions.ts'

interface Measured {
  parameters: number
  tokens_per_s: number
  seconds: Record<'prox' | 'forward' | 'backward' | 'optimizer', number>
  peak_bytes: number
  predicted_without_reserve_bytes: number
  state: { bytes: number; seconds: Record<'copy' | 'write' | 'verify' | 'read', number> }
}

endWith2OnError()
const { values } = benchArguments({
  options: {
    device: { type: 'string', default: 'cpu' },
    steps: { type: 'string', default: '2' },
    out: { type: 'string' },
  },
})

/** Large enough that activations, states and logits each matter. */
const SMALL = {
  model_type: 'qwen3',
  hidden_size: 256,
  num_hidden_layers: 4,
  intermediate_size: 768,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 64,
  vocab_size: 32_768,
  tie_word_embeddings: true,
}
const SHAPES = {
  base: { rows: 4 },
  fourTimesTheTokens: { rows: 16 },
  withoutRecomputation: { rows: 16, flags: ['--ac', 'none'] },
  plainHead: { rows: 16, flags: ['--head', 'plain'] },
  adapters: { rows: 4, flags: ['--lora-rank', '8'] },
} satisfies Record<string, { rows: number; flags?: string[] }>
type Name = keyof typeof SHAPES

const python = await findOrMakePython()
const scratch = await mkdtemp(join(tmpdir(), 'longhaul-bench-trainer-'))
try {
  const model = join(scratch, 'model')
  await mkdir(model)
  await writeFile(join(model, 'config.json'), JSON.stringify(SMALL))
  const measured = {} as Record<Name, Measured>
  for (const [name, shape] of Object.entries(SHAPES) as [Name, { rows: number; flags?: string[] }][]) {
    measured[name] = await measure(model, shape)
    const { seconds, state, peak_bytes: peak, predicted_without_reserve_bytes: predicted } = measured[name]
    console.log(name, {
      ...seconds,
      saved: state.seconds,
      peakMiB: mebibytes(peak),
      predictedMiB: mebibytes(predicted),
    })
  }
  const relations = judge(measured)
  for (const [claim, holds] of Object.entries(relations)) console.log(holds ? 'holds' : 'FAILS', claim)
  if (values.out !== undefined) {
    const result = {
      date: new Date().toISOString().slice(0, 10),
      model: SMALL,
      context: 512,
      relations,
      measured,
      load: Math.round(loadavg()[0] ?? 0),
      versions: versions(),
    }
    await writeFile(values.out, `${JSON.stringify(result, null, 1)}\n`)
  }
  process.exitCode = Object.values(relations).every(Boolean) ? 0 : 3
} finally {
  await rm(scratch, { recursive: true, force: true })
}

async function measure(model: string, { rows, flags = [] }: { rows: number; flags?: string[] }): Promise<Measured> {
  const args = ['-m', 'longhaul_trainer', 'bench', '--model', model, '--context', '512', '--rows', String(rows)]
  args.push('--steps', values.steps, '--device', values.device, '--state-in', scratch, ...flags)
  const env = { ...process.env, PYTHONPATH: join(import.meta.dirname, '../trainer') }
  const { stdout } = await promisify(execFile)(python, args, { env, timeout: 900_000 })
  const { model: _path, state_in: _scratch, ...report } = JSON.parse(stdout) as Measured & Record<string, unknown>
  return report
}

function judge(measured: Record<Name, Measured>): Record<string, boolean> {
  const { base, fourTimesTheTokens: more, withoutRecomputation: kept, plainHead: plain, adapters } = measured
  const all = Object.values(measured)
  /** Both as measured and as predicted. */
  const isMore = (a: Measured, b: Measured): boolean =>
    a.peak_bytes > b.peak_bytes && a.predicted_without_reserve_bytes > b.predicted_without_reserve_bytes
  return {
    'four times the tokens need more memory, and less than four times as much':
      isMore(more, base) && more.peak_bytes < 4 * base.peak_bytes,
    'recomputation needs less memory than keeping activations': isMore(kept, more),
    'the chunked head needs less memory than all logits at once': more.peak_bytes < plain.peak_bytes,
    'adapters need less memory than training every weight': isMore(base, adapters),
    'a saved state is three fp32 numbers for each trained weight and one for each frozen one': all.every((one) => {
      const trained = one === adapters ? adapters.parameters - base.parameters : one.parameters
      return Math.abs(one.state.bytes / (4 * one.parameters + 8 * trained) - 1) < 0.01
    }),
    'the copy that training waits for is shorter than the writing that it does not wait for': all.every(
      ({ state: { seconds } }) => seconds.copy < seconds.write,
    ),
  }
}

function mebibytes(bytes: number): number {
  return Math.round(bytes / 2 ** 20)
}
