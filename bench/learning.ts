/**
 * Does the loop learn? The demo with several seeds, evaluated on the same held-out tasks, with differences paired by task.
 *
 *   npm run bench:learning -- [--seeds 1,2,3] [--recipe demo] [--sampler vllm] [--out bench/results/learning.json]
 *   npm run bench:learning -- --runs RUN,RUN,RUN --artifacts DIR        judges existing runs
 *
 * With --sampler vllm, a vLLM without a GPU samples instead of the embedded server; Longhaul starts it and loads each policy. A seed
 * changes the training tasks, their order and every sample, but not the held-out tasks. For each seed RFT must be above the base and
 * RL above the base, in the demo by at least 0.2; over all seeds RL must be above RFT, with a task's attempts of all seeds as one
 * observation. Above means that the 95 % interval of the difference (docs/statistics.md) excludes 0. Exit 3 if one of these does not
 * hold, 2 if nothing was compared; the figures are printed in either case.
 */
import { writeFileSync } from 'node:fs'
import { createDirectoryStore } from '../src/adapters/artifacts/directory-store.ts'
import { startTraining } from '../src/client/index.ts'
import type { ArtifactStore } from '../src/contracts/artifacts.types.ts'
import type { EvaluatedTask, EvaluationRecord } from '../src/contracts/evaluations.types.ts'
import { runKeys } from '../src/contracts/keys.ts'
import type { Interval } from '../src/domain/statistics/bootstrap.ts'
import { INTERVAL_SEED } from '../src/domain/statistics/evaluation-summary.ts'
import { pairTasks, toOutcomes } from '../src/domain/statistics/comparison.ts'
import { differenceInterval } from '../src/domain/statistics/score-interval.ts'
import { pairedDifference, passAt1, type PairedDifference } from '../src/domain/statistics/statistics.ts'
import { startStack } from '../test/support/start-stack.ts'
import { unlessAborted } from '../src/platform/unless-aborted.ts'
import { stackPaths } from '../src/stack/paths.ts'
import { benchArguments, refuseArguments } from './support/arguments.ts'
import { conclude, endWith2OnError } from './support/conclude.ts'
import { interruption } from './support/interruption.ts'
import { liveSampler } from './support/live-sampler.ts'
import { readTrainings, samplerGaps, type SamplerGap } from './support/sampler-gaps.ts'
import { resultName, versions } from './support/versions.ts'
import type { StoredRecipe } from '../src/contracts/run-records.types.ts'

const STAGES = ['base', 'rft', 'rl'] as const
type Stage = (typeof STAGES)[number]

/** After − before, with the deciding interval. */
interface Judged extends PairedDifference {
  interval: Interval | null
}

interface SeedResult {
  seed: number
  run: string
  wallS: number
  durations: Record<string, number>
  scores: Record<Stage, { passAt1: number; sem: number; tasks: number; infra: number; meanTurns: number }>
  rftMinusBase: Judged
  rlMinusBase: Judged
  rlMinusRft: Judged
  holds: { rftAboveBase: boolean; rlAboveBase: boolean }
  /** One entry for each optimizer step of reinforcement. */
  gaps: SamplerGap[]
}

endWith2OnError()
const { values } = benchArguments({
  options: {
    seeds: { type: 'string', default: '1,2,3' },
    recipe: { type: 'string', default: 'demo' },
    sampler: { type: 'string' },
    out: { type: 'string' },
    runs: { type: 'string' },
    artifacts: { type: 'string' },
  },
})

if (values.sampler !== undefined && values.sampler !== 'vllm')
  refuseArguments(`Expected --sampler vllm, got ${values.sampler}`)
const sampler = values.sampler === 'vllm' ? await liveSampler() : {}
/** Least gain of RL over the base: the demo's base was weakened to leave much to gain. */
const leastGain = values.recipe === 'demo' ? 0.2 : 0
const outcomes: Record<Stage, Map<string, EvaluatedTask>> = { base: new Map(), rft: new Map(), rl: new Map() }
const interrupted = interruption()
const results =
  values.runs === undefined ? await playSeeds() : await judgeRuns(values.runs.split(','), values.artifacts ?? '.')

const together = judgeDifference(pooled('rft'), pooled('rl'))
const rlAboveRft = isAbove(together)
const isLearning = rlAboveRft && results.every(({ holds }) => holds.rftAboveBase && holds.rlAboveBase)
const report = {
  bench: 'learning',
  date: new Date().toISOString(),
  ...versions(resultName(values.out)),
  recipe: values.recipe,
  sampler: values.sampler ?? 'of the recipe',
  seeds: results,
  rlMinusRftTogether: together,
  means: Object.fromEntries(STAGES.map((stage) => [stage, passAt1(pooled(stage)).mean])),
  holds: { everySeed: results.every(({ holds }) => holds.rftAboveBase && holds.rlAboveBase), rlAboveRft },
}
const text = `${JSON.stringify(report, null, 2)}\n`
if (values.out !== undefined) writeFileSync(values.out, text)
console.log(text)
const compared = { seeds: results.length, 'held-out tasks': pairTasks(pooled('base'), pooled('rl')).shared.length }
const status = conclude({ compared, violations: 0 })
process.exitCode = status === 0 && !isLearning ? 3 : status

async function judgeRuns(runs: string[], root: string): Promise<SeedResult[]> {
  const store = createDirectoryStore({ root })
  const judged: SeedResult[] = []
  for (const run of runs) judged.push(await judge(store, run))
  return judged
}

async function playSeeds(): Promise<SeedResult[]> {
  const home = stackPaths().dataDir.replace(/\/stacks\/[^/]+$/, '')
  const stack = await startStack({
    name: ['bench-learning', values.recipe, values.sampler].filter(Boolean).join('-'),
    home,
    signal: interrupted,
  })
  Object.assign(process.env, stack.environment)
  const store = createDirectoryStore({ root: stack.artifactsDir })
  const played: SeedResult[] = []
  try {
    for (const seed of values.seeds.split(',').map(Number)) {
      const result = await judge(store, await unlessAborted(playSeed(seed), interrupted))
      played.push(result)
      console.error(line(result))
    }
  } finally {
    await stack.stop()
  }
  return played
}

async function playSeed(seed: number): Promise<string> {
  const handle = await startTraining({
    recipe: values.recipe,
    overrides: { seed, data: { train: { seed } }, ...sampler },
    fresh: true,
  })
  const outcome = await handle.outcome()
  await handle.close()
  if (outcome.status !== 'completed') throw new Error(`Seed ${seed} did not finish: ${JSON.stringify(outcome)}`)
  return outcome.result.run
}

async function judge(store: ArtifactStore, run: string): Promise<SeedResult> {
  const recipe = await store.readRecord<StoredRecipe>(runKeys.recipe(run))
  const report = await store.read(runKeys.report(run, 'report.json'))
  if (recipe === null || report === null) throw new Error(`Run ${run} has no recipe or no report`)
  const { durations } = JSON.parse(new TextDecoder().decode(report)) as { durations: Record<string, number> }
  const records = {} as Record<Stage, EvaluationRecord>
  for (const stage of STAGES) {
    const record = await store.readRecord<EvaluationRecord>(runKeys.evaluation(run, stage))
    if (record === null) throw new Error(`Run ${run} has no evaluation ${stage}`)
    records[stage] = record
    for (const task of record.tasks) {
      const earlier = outcomes[stage].get(task.taskId)?.outcomes ?? []
      outcomes[stage].set(task.taskId, { ...task, outcomes: [...earlier, ...task.outcomes] })
    }
  }
  const difference = (before: Stage, after: Stage): Judged =>
    judgeDifference(records[before].tasks, records[after].tasks)
  const rftMinusBase = difference('base', 'rft')
  const rlMinusBase = difference('base', 'rl')
  return {
    seed: recipe.recipe.seed,
    run,
    wallS: Object.values(durations).reduce((sum, seconds) => sum + seconds, 0),
    durations,
    scores: Object.fromEntries(STAGES.map((stage) => [stage, scoreOf(records[stage])])) as SeedResult['scores'],
    rftMinusBase,
    rlMinusBase,
    rlMinusRft: difference('rft', 'rl'),
    holds: { rftAboveBase: isAbove(rftMinusBase), rlAboveBase: isAbove(rlMinusBase) && rlMinusBase.mean >= leastGain },
    gaps: samplerGaps(await readTrainings(store, run)),
  }
}

function scoreOf({ score, infra, turns }: EvaluationRecord): SeedResult['scores'][Stage] {
  return { passAt1: score.passAt1, sem: score.sem, tasks: score.tasks, infra, meanTurns: turns.mean }
}

function judgeDifference(before: readonly EvaluatedTask[], after: readonly EvaluatedTask[]): Judged {
  const tasks = pairTasks(before, after).shared.map(toOutcomes)
  return { ...pairedDifference({ before, after }), interval: differenceInterval({ tasks, seed: INTERVAL_SEED }) }
}

function isAbove({ interval }: Judged): boolean {
  return interval !== null && interval.low > 0
}

/** Attempts of all seeds at one task are one observation. */
function pooled(stage: Stage): EvaluatedTask[] {
  return [...outcomes[stage].values()]
}

function line({ seed, wallS, scores, rftMinusBase, rlMinusBase }: SeedResult): string {
  const shown = STAGES.map((stage) => `${stage} ${scores[stage].passAt1.toFixed(3)} ± ${scores[stage].sem.toFixed(3)}`)
  const gains = `rft−base ${rftMinusBase.mean.toFixed(3)} ± ${rftMinusBase.sem.toFixed(3)}, rl−base ${rlMinusBase.mean.toFixed(3)}`
  return `seed ${seed}: ${shown.join(', ')}; ${gains}; ${wallS.toFixed(0)} s`
}
