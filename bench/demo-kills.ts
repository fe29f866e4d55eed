/**
 * A complete run in which a process dies every few seconds: any worker, the policy server, Temporal, the training job.
 *
 *   npm run bench:demo-kills -- [--recipe demo] [--times 3] [--every 20] [--first 1] [--continue FILE] [--json] [--out FILE]
 *
 * Plays an undisturbed run, then `--times` runs in which a role drawn by the seed is killed every `--every` seconds. Each must finish
 * with the episode identities of the undisturbed run, each once, and with a ledger that its records confirm. Rewards may differ,
 * because a lost sample is drawn again and a server rounds differently when it batches other requests with it. The results are
 * written after each run; `--continue` keeps the runs of a file, including its undisturbed run, whose records this machine still has.
 * Exit 1 on any violation, 2 if a run could not be played.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkLedger } from '../src/activities/training/check-ledger.ts'
import { stackPaths } from '../src/stack/paths.ts'
import { startStack } from '../test/support/start-stack.ts'
import { killAnyRole, type RoleKilled } from '../test/support/kill/kill-any-role.ts'
import { type PipelineWorld, worldOf } from '../test/support/pipeline-world.ts'
import { runRecipe } from '../test/support/run-recipe.ts'
import { episodesOf, leftBehind, recipeOf } from '../test/support/run-records.ts'
import { benchArguments } from './support/arguments.ts'
import { conclude, endWith2OnError } from './support/conclude.ts'
import { interruption } from './support/interruption.ts'
import { readKept } from './support/kept-results.ts'
import { commit, versions } from './support/versions.ts'

/** Far above the demo's quarter of an hour: under kills an episode waits for missed heartbeats. */
const LIMIT_MS = 3 * 3_600_000

interface PlayedRun {
  seed: number | null
  run: string
  wallS: number
  killed: Record<string, number>
  episodes: number
  stages: { name: string; passAt1: number; sem: number }[]
  violations: string[]
}

endWith2OnError()
const { values } = benchArguments({
  options: {
    recipe: { type: 'string', default: 'demo' },
    times: { type: 'string', default: '3' },
    every: { type: 'string', default: '20' },
    first: { type: 'string', default: '1' },
    continue: { type: 'string' },
    json: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
})
const [times, every, first] = [Number(values.times), Number(values.every), Number(values.first)]
if (!Number.isInteger(times) || times < 1 || !(every >= 1) || !Number.isInteger(first)) {
  console.error('Expected --times N with N ≥ 1, --every SECONDS with SECONDS ≥ 1 and --first SEED')
  process.exit(1)
}

const interrupted = interruption()

const runs: PlayedRun[] = readRuns(values.continue)
const stack = await startStack({
  name: 'bench-demo-kills',
  home: join(stackPaths().dataDir, '..', '..'),
  signal: interrupted,
})
const failures: { seed: number | null; message: string }[] = []
try {
  const world = await worldOf(stack)
  try {
    const kept = runs.find(({ seed }) => seed === null)
    const identities = kept === undefined ? await play(world, null, new Set()) : await identitiesOf(world, kept.run)
    for (let seed = first; seed < first + times && !interrupted.aborted; seed++) {
      if (!runs.some((run) => run.seed === seed)) await play(world, seed, identities)
    }
  } catch (error) {
    failures.push({ seed: runs.at(-1)?.seed ?? null, message: String(error) })
    console.error(failures.at(-1)?.message)
  } finally {
    await world.close()
  }
} finally {
  await stack.stop()
}

const summary = summarize()
if (values.json) process.stdout.write(JSON.stringify(summary, null, 2))
else console.log(`${runs.length} of ${times + 1} played, ${summary.violations} violations, ${failures.length} failures`)
const disturbed = runs.filter(({ seed }) => seed !== null)
const compared = {
  'episodes under kills': disturbed.reduce((sum, { episodes }) => sum + episodes, 0),
  kills: disturbed.reduce(
    (sum, { killed }) => sum + Object.values(killed).reduce((total, count) => total + count, 0),
    0,
  ),
}
const isWhole = failures.length === 0 && runs.length > times
process.exitCode = isWhole ? conclude({ compared, violations: summary.violations }) : 2

function summarize(): Record<string, unknown> & { violations: number } {
  return {
    bench: 'demo-kills',
    date: new Date().toISOString(),
    ...versions(),
    commit: commit(),
    recipe: values.recipe,
    everyS: every,
    violations: runs.reduce((sum, run) => sum + run.violations.length, 0),
    failures,
    runs,
  }
}

/** @throws if the file is of another commit or recipe, whose runs cannot be compared */
function readRuns(file: string | undefined): PlayedRun[] {
  if (file === undefined) return []
  const { recipe, runs: found } = readKept<{ recipe: string; runs: PlayedRun[] }>(file)
  if (recipe === values.recipe) return found
  throw new Error(`${file} holds runs of ${recipe}, not of ${values.recipe}: play them again`)
}

async function identitiesOf({ store }: PipelineWorld, run: string): Promise<Set<string>> {
  const records = await episodesOf(store, run)
  if (records.length === 0) throw new Error(`The records of ${run} are not on this machine: play without --continue`)
  return new Set(records.map(({ episode }) => episode.slice(run.length + 1)))
}

/** With seed null nothing is killed, and the run is compared only with itself. @returns the identities of its episodes */
async function play(world: PipelineWorld, seed: number | null, expected: ReadonlySet<string>): Promise<Set<string>> {
  const startedMs = Date.now()
  const over = new AbortController()
  const kills =
    seed === null
      ? Promise.resolve<RoleKilled[]>([])
      : killAnyRole({ stack, seed, everyMs: every * 1000, signal: over.signal, say: console.error })
  const { outcome } = await runRecipe({
    connection: world.connection,
    input: { recipe: values.recipe },
    limitMs: LIMIT_MS,
    signal: interrupted,
    say: console.error,
  }).finally(() => over.abort())
  const killed = await kills
  if (outcome.status !== 'completed') throw new Error(`The run did not finish: ${JSON.stringify(outcome)}`)
  const { run, stages } = outcome.result
  const records = await episodesOf(world.store, run)
  const identities = records.map(({ episode }) => episode.slice(run.length + 1))
  const recipe = await recipeOf(world.store, run)
  const ledger = await checkLedger({ store: world.store, recipe }, run)
  const played: PlayedRun = {
    seed,
    run,
    wallS: (Date.now() - startedMs) / 1000,
    killed: countRoles(killed),
    episodes: records.length,
    stages: stages.map(({ name, passAt1, sem }) => ({ name, passAt1, sem })),
    violations: [
      ...identityFaults(identities, seed === null ? new Set(identities) : expected),
      ...ledger.mismatches.map((mismatch) => `ledger: ${JSON.stringify(mismatch)}`),
      ...(ledger.totals.episodes === records.length ? [] : [`the ledger has ${ledger.totals.episodes} episodes`]),
      ...(await leftBehind(world, run)).map((left) => `left behind: ${left}`),
    ],
  }
  runs.push(played)
  console.error(line(played))
  if (values.out !== undefined) writeFileSync(values.out, `${JSON.stringify(summarize(), null, 2)}\n`)
  return new Set(identities)
}

function identityFaults(found: readonly string[], expected: ReadonlySet<string>): string[] {
  const unique = new Set(found)
  return [
    ...(unique.size === found.length ? [] : [`${found.length - unique.size} episodes have a second result`]),
    ...[...unique]
      .filter((episode) => !expected.has(episode))
      .map((episode) => `${episode} is not of the undisturbed run`),
    ...[...expected].filter((episode) => !unique.has(episode)).map((episode) => `${episode} is missing`),
  ]
}

function countRoles(killed: readonly RoleKilled[]): Record<string, number> {
  return Object.fromEntries([...Map.groupBy(killed, ({ role }) => role)].map(([role, all]) => [role, all.length]))
}

function line({ seed, episodes, wallS, killed, violations: found }: PlayedRun): string {
  const who = seed === null ? 'undisturbed' : `seed ${seed}`
  const deaths = Object.entries(killed).map(([role, count]) => `${role} ${count}`)
  const verdict = found.length === 0 ? 'ok' : `VIOLATED\n  ${found.slice(0, 20).join('\n  ')}`
  return `${who}: ${episodes} episodes, killed ${deaths.join(', ') || 'nothing'}, ${wallS.toFixed(0)} s: ${verdict}`
}
