/**
 * A whole run while something dies every few seconds: any worker, the policy server, Temporal, the training job.
 *
 *   npm run bench:demo-kills -- [--recipe demo] [--times 3] [--every 20] [--first 1] [--json] [--out bench/results/demo-kills.json]
 *
 * First an undisturbed run, then `--times` runs under kills, `--every` seconds apart, of a role drawn by the seed. Each must
 * finish with the episode identities of the undisturbed run, each once, and a ledger that its records confirm. Rewards may
 * differ: a sample that was lost is drawn again, and a server that batches other requests beside it rounds otherwise.
 * Exit 1 when anything was violated, 2 where a run could not be played.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { checkLedger } from '../src/activities/artifacts/check-ledger.ts'
import { stackPaths } from '../src/stack/paths.ts'
import { startStack } from '../src/stack/start-stack.ts'
import { killAnyRole, type RoleKilled } from '../test/support/kill/kill-any-role.ts'
import { type PipelineWorld, worldOf } from '../test/support/pipeline-world.ts'
import { runRecipe } from '../test/support/run-recipe.ts'
import { episodesOf, leftovers, recipeOf } from '../test/support/run-records.ts'
import { versions } from './support/versions.ts'

/** Far beyond the demo's quarter of an hour: under kills an episode waits for heartbeats that were missed. */
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

const { values } = parseArgs({
  options: {
    recipe: { type: 'string', default: 'demo' },
    times: { type: 'string', default: '3' },
    every: { type: 'string', default: '20' },
    first: { type: 'string', default: '1' },
    json: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
})
const [times, every, first] = [Number(values.times), Number(values.every), Number(values.first)]
if (!Number.isInteger(times) || times < 1 || !(every >= 1) || !Number.isInteger(first)) {
  console.error('Expected --times N with N ≥ 1, --every SECONDS with SECONDS ≥ 1 and --first SEED')
  process.exit(1)
}

const interrupt = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupt.abort(new Error(signal)))

const stack = await startStack({
  name: 'bench-demo-kills',
  home: join(stackPaths().dataDir, '..', '..'),
  signal: interrupt.signal,
})
const runs: PlayedRun[] = []
const failures: { seed: number | null; message: string }[] = []
try {
  const world = await worldOf(stack)
  try {
    const undisturbed = await play(world, null, new Set())
    runs.push(undisturbed.played)
    console.error(line(undisturbed.played))
    for (let seed = first; seed < first + times && !interrupt.signal.aborted; seed++) {
      const { played } = await play(world, seed, undisturbed.identities)
      runs.push(played)
      console.error(line(played))
    }
  } catch (error) {
    failures.push({ seed: runs.length === 0 ? null : first + runs.length - 1, message: String(error) })
    console.error(failures.at(-1)?.message)
  } finally {
    await world.close()
  }
} finally {
  await stack.stop()
}

const violations = runs.reduce((sum, run) => sum + run.violations.length, 0)
const summary = {
  bench: 'demo-kills',
  date: new Date().toISOString(),
  ...versions(),
  recipe: values.recipe,
  everyS: every,
  violations,
  failures,
  runs,
}
const text = `${JSON.stringify(summary, null, 2)}\n`
if (values.out !== undefined) writeFileSync(values.out, text)
if (values.json) process.stdout.write(text)
else console.log(`${runs.length} of ${times + 1} played, ${violations} violations, ${failures.length} failures`)
process.exitCode = failures.length > 0 || runs.length < times + 1 ? 2 : violations > 0 ? 1 : 0

/** Null as seed: nothing is killed, and nothing is compared but the run with itself. */
async function play(
  world: PipelineWorld,
  seed: number | null,
  expected: ReadonlySet<string>,
): Promise<{ played: PlayedRun; identities: Set<string> }> {
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
    say: console.error,
  }).finally(() => over.abort())
  const killed = await kills
  if (outcome.status !== 'completed') throw new Error(`The run did not finish: ${JSON.stringify(outcome)}`)
  const { run, stages } = outcome.result
  const records = await episodesOf(world.store, run)
  const identities = records.map(({ episode }) => episode.slice(run.length + 1))
  const recipe = await recipeOf(world.store, run)
  const ledger = await checkLedger({ store: world.store, recipe }, run)
  return {
    identities: new Set(identities),
    played: {
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
        ...(await leftovers(world, run)).map((left) => `left behind: ${left}`),
      ],
    },
  }
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
