/**
 * The pieces that need only the trainer: do device, dtype, packing and context parallel ranks agree, how fast is a step with each
 * switch, and does its memory match the planner. Without a GPU each runs at a small size on the CPU, or on tensors without data, and
 * stores no figure that could be mistaken for a GPU's.
 */
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { findOrMakePython } from '../../../src/stack/setup/set-up.ts'
import { runCommand } from '../../../src/platform/run-command.ts'
import type { GpuDevice } from './device.ts'
import type { Piece, PieceResult } from './pieces.ts'

export interface GpuWorld {
  /** Null: a dry run. */
  device: GpuDevice | null
  /** Folder of models and scores for later pieces. */
  scratch: string
}

/** A piece takes at most ten minutes on a GPU; on a busy CPU the same piece at a small size may take longer. */
const DRY_MINUTES = 60

export function minutesOf(device: GpuDevice | null): number {
  return device === null ? DRY_MINUTES : 10
}

const TRAINER = join(import.meta.dirname, '../../../trainer')

/** Permitted difference of log-probabilities at the 99th percentile, in nats, and permitted relative difference of the gradient's
 *  norm. */
export const LIMITS = {
  /** The order of additions. */
  float32: { p99: 1e-4, gradient: 1e-3 },
  /** With a clip of 0.2, no ratio moves by more than a fortieth of it. */
  bfloat16: { p99: 5e-3, gradient: 2e-2 },
} as const

/** Permitted relative error of the planner's peak. */
const MEMORY_LIMIT = 0.1

/** Tokens per second at 65,536 tokens, on the GPU for which they are stated. */
export const AIMS = {
  device: /H200/,
  'qwen3-0.6b': 12_000,
  'qwen3-4b': 4_600,
} as const

/** Every dimension is small except the vocabulary, because rounding shows in its softmax. */
const DRY_SHAPE = {
  model_type: 'qwen3',
  hidden_size: 64,
  num_hidden_layers: 2,
  intermediate_size: 192,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 16,
  vocab_size: 151_936,
  tie_word_embeddings: true,
}

interface Trainer {
  python: string
  signal: AbortSignal
}

export function trainerPieces(world: GpuWorld): Piece[] {
  return [...setUpPieces(world), ...agreementPieces(world), ...speedPieces(world), ...memoryPieces(world)]
}

// ---------------------------------------------------------------- set-up

function setUpPieces({ device, scratch }: GpuWorld): Piece[] {
  return [
    {
      name: 'set-up/trainer',
      minutes: minutesOf(device),
      async run(signal) {
        const python = await findOrMakePython()
        const told =
          'import json, torch; print(json.dumps({"torch": torch.__version__, "cuda": torch.cuda.is_available()}))'
        const facts = await runPython<{ torch: string; cuda: boolean }>({ python, signal }, ['-c', told])
        const isSeen = device === null || facts.cuda
        const violations = isSeen ? [] : ['the driver names a GPU that torch does not see']
        return { compared: 0, violations, facts }
      },
    },
    {
      name: 'set-up/model',
      after: ['set-up/trainer'],
      minutes: minutesOf(device),
      async run(signal) {
        const python = await findOrMakePython()
        const shape = device === null ? await writeDryShape(scratch) : 'qwen3-0.6b'
        await rm(modelIn(scratch), { recursive: true, force: true })
        const words = ['random-model', modelIn(scratch), '--shape', shape, '--context', '4096']
        const { parameters } = await runTrainer<{ parameters: number }>({ python, signal }, words)
        // Without the model's path, because results are published.
        return { compared: 0, violations: [], facts: { parameters } }
      },
    },
  ]
}

function modelIn(scratch: string): string {
  return join(scratch, 'model')
}

async function writeDryShape(scratch: string): Promise<string> {
  const directory = join(scratch, 'shape')
  await mkdir(directory, { recursive: true })
  await writeFile(join(directory, 'config.json'), JSON.stringify(DRY_SHAPE))
  return directory
}

// ---------------------------------------------------------------- agreement

interface Layout {
  device: 'cpu' | 'cuda'
  compute: keyof typeof LIMITS
  /** Additional flags of `agree`. */
  flags?: readonly string[]
  ranks?: number
}

function agreementPieces(world: GpuWorld): Piece[] {
  const { device, scratch } = world
  const on = device === null ? 'cpu' : 'cuda'
  const rows = ['--context', device === null ? '128' : '2048', '--rows', '4']
  const score = (trainer: Trainer, layout: Layout, file: readonly string[]): Promise<Report> =>
    runTrainer<Report>(trainer, wordsOf({ layout, scratch, rows, file }), layout.ranks)
  const stored = (name: string): string => join(scratch, `${name}.safetensors`)
  const compare = (name: string, one: Layout, other: Layout): Piece => ({
    name: `agree/${name}`,
    after: ['set-up/model'],
    minutes: minutesOf(device),
    async run(signal) {
      const trainer = { python: await findOrMakePython(), signal }
      await score(trainer, one, ['--store', stored(name)])
      const report = await score(trainer, other, ['--against', stored(name)])
      return judgeAgreement(report, LIMITS[other.compute], { one, other })
    },
  })
  const two: Piece =
    device !== null && device.count < 2
      ? {
          name: 'agree/context-parallel',
          minutes: 1,
          run: () => Promise.resolve({ compared: 0, violations: [], facts: { skipped: 'one GPU is here' } }),
        }
      : compare(
          'context-parallel',
          { device: on, compute: 'float32', ranks: 1 },
          { device: on, compute: 'float32', ranks: 2, flags: ['--cp', '2'] },
        )
  return [
    // In a dry run both sides are the CPU, and one of them recomputes its layers.
    compare(
      'fp32',
      { device: 'cpu', compute: 'float32' },
      { device: on, compute: 'float32', flags: device === null ? ['--ac', 'full'] : [] },
    ),
    compare('bf16', { device: 'cpu', compute: 'float32' }, { device: on, compute: 'bfloat16' }),
    compare('packed', { device: on, compute: 'float32', flags: ['--alone'] }, { device: on, compute: 'float32' }),
    compare(
      'attention',
      { device: on, compute: 'bfloat16', flags: ['--attention', 'rows'] },
      { device: on, compute: 'bfloat16', flags: ['--attention', 'varlen'] },
    ),
    compare(
      'save-attention',
      { device: on, compute: 'bfloat16' },
      { device: on, compute: 'bfloat16', flags: ['--ac', 'save_attention'] },
    ),
    // A copy that is read too early or released too soon shows in the gradient.
    compare(
      'overlapped-offload',
      { device: on, compute: 'float32', flags: ['--ac', 'full'] },
      { device: on, compute: 'float32', flags: ['--ac', 'full', '--offload-activations', 'overlapped'] },
    ),
    two,
  ]
}

interface Report {
  difference: { compared: number; median: number; p99: number; max: number; spread: number; gradient: number } | null
}

/** @throws Error if the report has no comparison, or compares a model that proves nothing */
export function judgeAgreement(
  { difference }: Report,
  limits: { p99: number; gradient: number },
  layouts: Record<'one' | 'other', Layout>,
): PieceResult {
  if (difference === null) throw new Error('Expected a comparison, got scores alone')
  // A model that gives every token the same probability agrees with every other such model.
  if (!(difference.spread > 10 * limits.p99))
    throw new Error(`Expected log-probabilities that differ, they spread by ${difference.spread}`)
  // Negated, so that NaN is a violation too.
  const violations = (['p99', 'gradient'] as const)
    .filter((name) => !(difference[name] <= limits[name]))
    .map((name) => `${name} is ${difference[name].toExponential(2)}, at most ${limits[name]} was expected`)
  return { compared: difference.compared, violations, facts: { ...layouts, limits, difference } }
}

function wordsOf({
  layout: { device, compute, flags = [] },
  scratch,
  rows,
  file,
}: {
  layout: Layout
  scratch: string
  rows: readonly string[]
  file: readonly string[]
}): string[] {
  return ['agree', '--model', modelIn(scratch), ...rows, '--device', device, '--compute', compute, ...flags, ...file]
}

// ---------------------------------------------------------------- speed

/** The switches of the fastest known step; the other pieces change one of them each. */
const FASTEST = ['--attention', 'auto', '--ac', 'save_attention', '--optimizer', 'fused'] as const
/** Needs Hopper and a package outside of the lock; without them the piece is skipped. */
const FA3 = 'attention-fa3'
const SWITCHES: Readonly<Record<string, readonly string[]>> = {
  fastest: [],
  'attention-varlen': ['--attention', 'varlen'],
  [FA3]: ['--attention', 'fa3'],
  'recompute-attention': ['--ac', 'full'],
  'optimizer-foreach': ['--optimizer', 'foreach'],
  'offload-activations': ['--offload-activations', 'serial'],
  'offload-overlapped': ['--offload-activations', 'overlapped'],
  'prox-first': ['--prox', 'first'],
}
const SPEED_MODELS = {
  'qwen3-0.6b': [],
  'qwen3-4b': ['--lora-rank', '16'],
} as const
const CONTEXT = 65_536

interface Measured {
  tokens_per_s: number
  /** Including the pass for proximal log-probabilities, if the step has one. */
  tokens_per_s_with_prox: number
  seconds: Record<string, number>
  peak_bytes: number
  predicted_without_reserve_bytes: number
  parameters: number
  versions: { torch: string; device: string }
}

type Peaks = Pick<Measured, 'peak_bytes' | 'predicted_without_reserve_bytes'>

function speedPieces(world: GpuWorld): Piece[] {
  return (Object.keys(SPEED_MODELS) as (keyof typeof SPEED_MODELS)[]).flatMap((model) =>
    [...Object.keys(SWITCHES), 'not-compiled'].map(
      (name): Piece => ({
        name: `speed/${model}/${name}`,
        after: ['set-up/model'],
        minutes: minutesOf(world.device),
        run: (signal) => measureSpeed({ world, model, name, signal }),
      }),
    ),
  )
}

async function measureSpeed({
  world: { device, scratch },
  model,
  name,
  signal,
}: {
  world: GpuWorld
  model: keyof typeof SPEED_MODELS
  name: string
  signal: AbortSignal
}): Promise<PieceResult> {
  const python = await findOrMakePython()
  // The last value of a repeated flag wins.
  const switches = [...FASTEST, ...SPEED_MODELS[model], ...(SWITCHES[name] ?? [])]
  // `eager` traces the same parts without a compiler.
  const compile = name === 'not-compiled' ? 'none' : device === null ? 'eager' : 'inductor'
  const words = ['bench', ...switches, '--compile', compile]
  const small = ['--context', '128', '--steps', '1', '--device', 'cpu']
  const whole = ['--model', model, '--context', String(CONTEXT), '--steps', '2', '--device', 'cuda']
  words.push(...(device === null ? ['--model', await writeDryShape(scratch), ...small] : whole))
  let measured: Measured
  try {
    measured = await runTrainer<Measured>({ python, signal }, words)
  } catch (error) {
    // A package missing from this environment, or a kernel missing on this GPU, is no failure of the trainer.
    if (name !== FA3 || !(error instanceof TrainerEnded) || error.exitCode !== UNAVAILABLE) throw error
    return { compared: 0, violations: [], facts: { skipped: error.lastLine, switches } }
  }
  const { tokens_per_s: speed, tokens_per_s_with_prox: withProx, seconds, versions } = measured
  if (device === null) return { compared: 0, violations: [], facts: { ran: Object.keys(seconds), switches } }
  const aim = name === 'fastest' && AIMS.device.test(device.name) ? AIMS[model] : null
  const violations =
    aim === null || speed >= aim ? [] : [`${speed} tokens a second at ${CONTEXT} tokens, the aim is ${aim}`]
  return {
    compared: aim === null ? 0 : 1,
    violations,
    facts: {
      tokensPerSecond: speed,
      tokensPerSecondWithProx: withProx,
      aim,
      seconds,
      switches,
      compile,
      versions,
      context: CONTEXT,
    },
  }
}

// ---------------------------------------------------------------- memory

/** Full steps on the GPU; in a dry run two layers, at a context that a simulation handles in seconds. */
const LAYOUTS: Readonly<Record<string, { model: string; context: number; flags: readonly string[] }>> = {
  '0.6b-full': { model: 'qwen3-0.6b', context: CONTEXT, flags: ['--ac', 'full'] },
  '0.6b-save-attention': { model: 'qwen3-0.6b', context: CONTEXT, flags: ['--ac', 'save_attention'] },
  '4b-adapters': { model: 'qwen3-4b', context: CONTEXT, flags: ['--ac', 'full', '--lora-rank', '16'] },
}

function memoryPieces({ device }: GpuWorld): Piece[] {
  return Object.entries(LAYOUTS).map(
    ([name, { model, context, flags }]): Piece => ({
      name: `memory/${name}`,
      after: ['set-up/trainer'],
      minutes: minutesOf(device),
      async run(signal) {
        const trainer = { python: await findOrMakePython(), signal }
        if (device === null) {
          const dry = ['--model', model, '--layers', '2', '--context', '8192', ...flags]
          const report = await runTrainer<Peaks>(trainer, ['simulate', ...dry])
          return judgeMemory(report, { how: 'on tensors without numbers, two layers, 8,192 tokens', model, flags })
        }
        const words = [
          'bench',
          '--model',
          model,
          '--context',
          String(context),
          '--steps',
          '1',
          '--device',
          'cuda',
          ...flags,
        ]
        return judgeMemory(await runTrainer<Measured>(trainer, words), {
          how: 'allocated on the GPU',
          model,
          context,
          flags,
        })
      },
    }),
  )
}

export function judgeMemory(
  { peak_bytes: peak, predicted_without_reserve_bytes: predicted }: Peaks,
  facts: Record<string, unknown>,
): PieceResult {
  const share = predicted / peak
  const isClose = Math.abs(share - 1) <= MEMORY_LIMIT
  const violations = isClose ? [] : [`the planner says ${share.toFixed(3)} of the peak, at most 10 % off was expected`]
  return { compared: 1, violations, facts: { ...facts, plannerShare: Math.round(share * 1000) / 1000 } }
}

// ---------------------------------------------------------------- the trainer's own commands

/** The trainer's exit code if a device, or a package for it, is missing. */
const UNAVAILABLE = 69

class TrainerEnded extends Error {
  readonly exitCode: number | null
  readonly lastLine: string

  constructor(command: string, exitCode: number | null, tail: string) {
    const lines = tail.trimEnd().split('\n')
    super(`${command} ended with ${exitCode}: ${lines.slice(-6).join(' | ')}`)
    this.exitCode = exitCode
    this.lastLine = lines.at(-1) ?? ''
  }
}

async function runTrainer<T extends object>(trainer: Trainer, words: readonly string[], ranks = 1): Promise<T> {
  const launch =
    ranks === 1 ? [] : ['longhaul_trainer.parallel.launch', `--nproc-per-node=${ranks}`, '--log-dir=/dev/null']
  return runPython(trainer, ['-m', ...launch, ...(ranks === 1 ? [] : ['-m']), 'longhaul_trainer', ...words])
}

/** @returns the JSON object of the program's last line. @throws Error with the program's output */
async function runPython<T extends object>({ python, signal }: Trainer, args: readonly string[]): Promise<T> {
  const { exitCode, stdout, tail } = await runCommand({
    command: python,
    args: [...args],
    env: { ...process.env, PYTHONPATH: TRAINER },
    // Longer than the piece's own limit.
    timeoutMs: 2 * DRY_MINUTES * 60_000,
    signal,
  })
  if (exitCode !== 0) throw new TrainerEnded(args.slice(0, 4).join(' '), exitCode, tail)
  const last = stdout.split('\n').findLast((line) => line.startsWith('{'))
  if (last === undefined) throw new Error(`Expected JSON of ${args.slice(0, 4).join(' ')}, got ${stdout.slice(-200)}`)
  return JSON.parse(last) as T
}
