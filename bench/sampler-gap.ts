/**
 * How far is a live vLLM from the trainer? Fine-tunes the demo's policy and reinforces it for two short iterations with each sampler,
 * and reports for each optimizer step how far the trainer's log-probabilities of the sampled tokens are from the sampler's.
 *
 *   npm run bench:sampler-gap -- [--variants embedded,fp32,fp32-uncached,bf16(,bf16-uncached)] [--out FILE] [--json]
 *
 * fp32 and bf16 are the dtypes of the exported weights and of the engine; the trainer computes in fp32. uncached: without prefix
 * caching. Prompts are prefilled in one chunk, because the CPU build exits on a seeded request that is prefilled in chunks. Exit 1 if a
 * run did not complete, or if a step in fp32 is beyond 0.01 nats; 2 if nothing was compared.
 */
import { writeFileSync } from 'node:fs'
import { createDirectoryStore } from '../src/adapters/artifacts/directory-store.ts'
import { startTraining } from '../src/client/index.ts'
import { unlessAborted } from '../src/platform/unless-aborted.ts'
import { stackPaths } from '../src/stack/paths.ts'
import { startStack } from '../test/support/start-stack.ts'
import { benchArguments, refuseArguments } from './support/arguments.ts'
import { conclude, endWith2OnError } from './support/conclude.ts'
import { interruption } from './support/interruption.ts'
import { liveSampler } from './support/live-sampler.ts'
import { readTrainings, samplerGaps, type SamplerGap } from './support/sampler-gaps.ts'
import { versions } from './support/versions.ts'

/** Nats per token: far above the effect of the order of additions, far below a training step. */
const FP32_LIMIT = 0.01

const SAMPLERS: Record<string, () => Promise<Record<string, unknown>>> = {
  embedded: async () => ({}),
  fp32: () => liveSampler(),
  'fp32-uncached': () => liveSampler({ prefixCaching: false }),
  bf16: () => liveSampler({ dtype: 'bfloat16' }),
  'bf16-uncached': () => liveSampler({ dtype: 'bfloat16', prefixCaching: false }),
}

/** Enough episodes for thousands of tokens per step. */
const SHORT = {
  data: { train: { count: 16 }, heldOut: { count: 4 } },
  rft: { tasks: 8, rolloutsPerTask: 4, epochs: 1 },
  evaluate: { tasks: 4 },
}
const STAGE = {
  name: 'dapo-1',
  context: 640,
  maxTurns: 6,
  penaltyStart: 4,
  problemsPerIteration: 8,
  batch: 32,
  clip: { low: 0.2, high: 0.28 },
  until: { maxIterations: 2 },
}

interface Result {
  variant: string
  run: string
  wallS: number
  alarms: number
  gaps: SamplerGap[]
  /** Maximum over all steps; minimum for the share of effective samples. */
  worst: { k3: number; absK1: number; absDlogpMax: number; absDlogpP99: number; ess: number }
}

endWith2OnError()
const { values } = benchArguments({
  options: {
    variants: { type: 'string', default: 'embedded,fp32,fp32-uncached,bf16' },
    out: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
})
const variants = values.variants.split(',')
const strange = variants.filter((name) => !Object.hasOwn(SAMPLERS, name))
if (strange.length > 0)
  refuseArguments(`Expected --variants of ${Object.keys(SAMPLERS).join(', ')}, got ${strange.join(', ')}`)

const home = stackPaths().dataDir.replace(/\/stacks\/[^/]+$/, '')
const interrupted = interruption()
const stack = await startStack({ name: 'bench-sampler-gap', home, signal: interrupted })
Object.assign(process.env, stack.environment)
const store = createDirectoryStore({ root: stack.artifactsDir })
const results: Result[] = []
const violations: string[] = []
try {
  for (const variant of variants) {
    const result = await unlessAborted(play(variant), interrupted)
    results.push(result)
    const { k3, absDlogpMax, ess } = result.worst
    console.error(
      `${variant}: k3 ${k3.toExponential(2)}, |Δ log p| ${absDlogpMax.toExponential(2)}, ess ${ess.toFixed(6)}`,
    )
    if (variant.startsWith('fp32') && !(absDlogpMax < FP32_LIMIT)) violations.push(`${variant}: ${absDlogpMax} nats`)
    write()
  }
} finally {
  await stack.stop()
}
for (const violation of violations) console.error(violation)
const compared = Object.fromEntries(results.map(({ variant, gaps }) => [`steps of ${variant}`, gaps.length]))
process.exitCode = conclude({ compared: { variants: results.length, ...compared }, violations: violations.length })

async function play(variant: string): Promise<Result> {
  const { trainer = {}, ...sampler } = (await SAMPLERS[variant]?.()) ?? {}
  const handle = await startTraining({
    recipe: 'demo',
    overrides: {
      ...SHORT,
      reinforce: { stages: [STAGE] },
      // The bench measures the effect of a variant on these figures, so no alarm may pause the run.
      trainer: { ...(trainer as object), alarms: { onAlarm: 'warn' } },
      ...sampler,
    },
    fresh: true,
  })
  const started = performance.now()
  const outcome = await handle.outcome()
  await handle.close()
  if (outcome.status !== 'completed') throw new Error(`${variant} did not finish: ${JSON.stringify(outcome)}`)
  const { run } = outcome.result
  const trainings = await readTrainings(store, run)
  const gaps = samplerGaps(trainings)
  const most = (of: (gap: SamplerGap) => number): number => Math.max(...gaps.map(of))
  return {
    variant,
    run,
    wallS: Math.round((performance.now() - started) / 1000),
    alarms: trainings.reduce((sum, { alarms }) => sum + alarms.length, 0),
    gaps,
    worst: {
      k3: most(({ k3 }) => k3),
      absK1: most(({ k1 }) => Math.abs(k1)),
      absDlogpMax: most(({ absDlogpMax }) => absDlogpMax),
      absDlogpP99: most(({ absDlogpP99 }) => absDlogpP99),
      ess: -most(({ ess }) => -ess),
    },
  }
}

function write(): void {
  const text = `${JSON.stringify({ bench: 'sampler-gap', ...versions(), vllm: '0.32.0 for processors', results }, null, 2)}\n`
  if (values.out !== undefined) writeFileSync(values.out, text)
  if (values.json && results.length === variants.length) process.stdout.write(text)
}
