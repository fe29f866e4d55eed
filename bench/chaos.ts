/**
 * Any process may die. Real runs with a scripted policy, in which faults strike at chosen phases; each is compared with the run
 * without faults.
 *
 *   npm run chaos -- [--seeds 200] [--first-seed 1] [--faults kill-sandbox,host-loss] [--lanes 2] [--continue FILE]… [--json] [--out FILE]
 *                     [--beside FILE]… [--uncovered] [--no-docs] [--reproduce] [--plant double-step]
 *                     [--store s3] [--sandboxes pods]
 *
 * `--faults` takes names and families (`reset` is all of `reset:…`). `--reproduce`: each seed is a training that ends at a random
 * moment of its base evaluation (all its workflows terminated, or the faults of `--faults`) and is started again. `--plant` breaks
 * the trainer on purpose in runs with faults, but not in the runs that they are compared with: every training seed must then be
 * violated. `--store s3` keeps the records in a bucket of a real server, which is faulty too, and plays only evaluations.
 * `--sandboxes pods` plays evaluations with faults in pods of a real cluster on this machine, which is faulty too, and the runs that
 * they are compared with in containers (`node test/support/kubernetes/programs.ts` builds its programs once). Prints one line a seed.
 * A seed mostly waits, so seeds are played concurrently in lanes, each on its own stack. A whole run takes two hours: `--continue`
 * keeps the seeds in earlier results of the same commit and plays the others, and `--beside` keeps those of another commit; the table
 * then names the seeds of each commit. `--uncovered` plays only seeds that contain a cell in which no kept seed has struck. Exit 1 on
 * any broken invariant, 2 if a seed could not be played. Needs root, because the bench starts its own engines.
 */
import { writeFileSync } from 'node:fs'
import { unlessAborted } from '../src/platform/unless-aborted.ts'
import { planSeed } from '../test/support/chaos/cells.ts'
import { planReproduction } from '../test/support/chaos/plan-reproduction.ts'
import {
  startChaosStack,
  type ChaosStack,
  needsChaos,
  PLANTS,
  SANDBOXES,
  type Setting,
  STORES,
} from '../test/support/chaos/chaos-stack.ts'
import { faultsNamed, faultsOn } from '../test/support/chaos/faults.ts'
import { findKubernetes } from '../test/support/kubernetes/programs.ts'
import { playSeed, type QuietRuns, type SeedReport } from '../test/support/chaos/play-seed.ts'
import { writeReliabilityTable } from '../test/support/chaos/reliability-table.ts'
import { benchArguments } from './support/arguments.ts'
import { interruption } from './support/interruption.ts'
import { readKept, readOfAnyCommit } from './support/kept-results.ts'
import { commit, versions } from './support/versions.ts'

const { values } = benchArguments({
  options: {
    seeds: { type: 'string', default: '200' },
    'first-seed': { type: 'string', default: '1' },
    faults: { type: 'string' },
    continue: { type: 'string', multiple: true, default: [] },
    beside: { type: 'string', multiple: true, default: [] },
    uncovered: { type: 'boolean', default: false },
    lanes: { type: 'string' },
    json: { type: 'boolean', default: false },
    out: { type: 'string' },
    'no-docs': { type: 'boolean', default: false },
    reproduce: { type: 'boolean', default: false },
    plant: { type: 'string' },
    store: { type: 'string', default: 'directory' },
    sandboxes: { type: 'string', default: 'containers' },
  },
})
// Each lane with pods has its own cluster.
const usualLanes = values.sandboxes === 'pods' ? 1 : 2
const [seeds, first, lanes] = [Number(values.seeds), Number(values['first-seed']), Number(values.lanes ?? usualLanes)]
if (![seeds, first, lanes].every(Number.isInteger) || seeds < 1 || first < 0 || lanes < 1) {
  console.error('Expected --seeds N with N ≥ 1, --first-seed K with K ≥ 0 and --lanes L with L ≥ 1')
  process.exit(1)
}
if (needsChaos !== false) {
  console.error(`Chaos ${needsChaos}`)
  process.exit(2)
}
const store = STORES.find((one) => one === values.store) ?? 'directory'
if (store !== values.store || (store === 's3' && values.reproduce)) {
  console.error(`Expected --store to be one of ${STORES.join(', ')}, and --reproduce on a directory`)
  process.exit(1)
}
const sandboxes = SANDBOXES.find((one) => one === values.sandboxes) ?? 'containers'
if (sandboxes !== values.sandboxes || (sandboxes === 'pods' && (store === 's3' || values.reproduce))) {
  console.error(
    `Expected --sandboxes to be one of ${SANDBOXES.join(', ')}, and pods with neither --store s3 nor --reproduce`,
  )
  process.exit(1)
}
const setting: Setting = sandboxes === 'pods' ? 'pods' : store
const kubernetes = sandboxes === 'pods' ? await findKubernetes() : null
if (kubernetes !== null && 'reason' in kubernetes) {
  console.error(kubernetes.reason)
  process.exit(2)
}
const chosen = values.faults?.split(',').flatMap(faultsNamed)
const faults = faultsOn(setting).filter(({ name }) => chosen?.some((fault) => fault.name === name) !== false)
if (faults.length === 0) {
  console.error(`Expected --faults that can strike on --store ${store} --sandboxes ${sandboxes}, got ${values.faults}`)
  process.exit(1)
}

const plant = PLANTS.find((one) => one === values.plant) ?? null
if (values.plant !== undefined && plant === null) {
  console.error(`Expected --plant to be one of ${PLANTS.join(', ')}`)
  process.exit(1)
}

const interrupted = interruption()
const tell = (): void => console.error('interrupted: closing the stacks; results of whole seeds are kept')
interrupted.addEventListener('abort', tell, { once: true })

interface KeptSeeds {
  reports: SeedReport[]
  minutes: number
  engine: string
  commit: string
}

/** Checkpoints of trainings fill the artifact disk, which is in memory. */
const SEEDS_A_STACK = 20
/** The time in which a server restarts on another machine. */
const OUTAGE_MS = 60_000
const quiet: QuietRuns = new Map()
const kept = [
  ...values.continue.map((file) => readKept<KeptSeeds>(file)),
  ...values.beside.map((file) => readOfAnyCommit<KeptSeeds>(file)),
]
const reports: SeedReport[] = kept
  .flatMap((one) => one.reports.map((report) => ({ ...report, commit: report.commit ?? one.commit })))
  .filter(({ seed }) => seed >= first && seed < first + seeds)
const wanted = values.uncovered ? uncoveredSeeds() : seedsLeft()
const expected = new Set([...reports.map(({ seed }) => seed), ...wanted]).size
let engine = kept[0]?.engine ?? 'none'
const failures: { seed: number; message: string }[] = []
// A fault can leave a rejected promise without a handler, and an abandoned seed asks servers that are gone. Recording it keeps the
// results of the seeds played so far.
process.on('unhandledRejection', noteError)
process.on('uncaughtException', noteError)
const startedMs = Date.now()
await Promise.all(Array.from({ length: Math.min(lanes, seeds) }, playLane))
reports.sort((one, other) => one.seed - other.seed)

function noteError(error: unknown): void {
  if (interrupted.aborted) return
  failures.push({ seed: -1, message: `an error without a handler: ${String(error)}` })
  console.error(failures.at(-1)?.message)
}

function seedsLeft(): number[] {
  const done = new Set(reports.map(({ seed }) => seed))
  return Array.from({ length: seeds }, (_, index) => first + index).filter((seed) => !done.has(seed))
}

/**
 * Seeds without a result come first, then played seeds whose fault missed: a new result replaces the old one, and after a change of
 * the plan the seed contains other cells. A cell that several seeds contain is played once.
 */
function uncoveredSeeds(): number[] {
  const nameOf = (fault: string, phase: string): string => `${fault} × ${phase}`
  const covered = new Set(
    reports.flatMap(({ cells }) => cells.flatMap((cell) => (cell.struck ? [nameOf(cell.fault, cell.phase)] : []))),
  )
  const played = reports.map(({ seed }) => seed).toSorted((one, other) => one - other)
  return [...seedsLeft(), ...played].filter((seed) => {
    const names = planSeed(seed, faults).cells.map(({ fault, phase }) => nameOf(fault.name, phase))
    const isWanted = names.some((name) => !covered.has(name))
    if (isWanted) for (const name of names) covered.add(name)
    return isWanted
  })
}

/** The report of a repeated seed replaces the earlier one. */
function keep(report: SeedReport): void {
  const place = reports.findIndex(({ seed }) => seed === report.seed)
  if (place === -1) reports.push(report)
  else reports[place] = report
}

/** Takes the next seed until none is left. A broken seed may leave a half-dead stack, which must not affect the next seed. */
async function playLane(): Promise<void> {
  let stack: ChaosStack | null = null
  let played = 0
  try {
    for (let seed = wanted.shift(); seed !== undefined && !interrupted.aborted; seed = wanted.shift()) {
      const plan = values.reproduce
        ? planReproduction(seed, values.faults === undefined ? undefined : faults)
        : planSeed(seed, faults)
      try {
        stack ??= await startChaosStack({
          training:
            values.reproduce ||
            faults.some(({ phases, needsTraining }) => needsTraining !== undefined || phases.includes('training')),
          outageMs: OUTAGE_MS,
          plant,
          store,
          sandboxes,
          say: console.error,
        })
        engine = stack.engines.a.engine.version
        const report = await unlessAborted(playSeed({ stack, plan, quiet, say: console.error }), interrupted)
        keep({ ...report, commit: commit() })
        played += 1
        console.error(line(report))
        if (report.violations.length === 0 && played < SEEDS_A_STACK) continue
      } catch (error) {
        if (interrupted.aborted) return
        failures.push({ seed, message: error instanceof Error ? (error.stack ?? error.message) : String(error) })
        console.error(`seed ${seed}: FAILED ${failures.at(-1)?.message}`)
      }
      await stack?.close()
      stack = null
      played = 0
    }
  } finally {
    await stack?.close()
  }
}

const violations = reports.reduce((sum, report) => sum + report.violations.length, 0)
const summary = {
  bench: 'chaos',
  store,
  sandboxes,
  date: new Date().toISOString(),
  ...versions(values.reproduce ? 'chaos-reproduce' : setting === 'directory' ? 'chaos' : `chaos-${setting}`),
  commit: commit(),
  engine,
  seeds: reports.length,
  firstSeed: first,
  minutes:
    Math.round(((Date.now() - startedMs) / 60_000 + kept.reduce((sum, { minutes }) => sum + minutes, 0)) * 10) / 10,
  violations,
  failures,
  reports,
}
const text = `${JSON.stringify(summary, null, 2)}\n`
if (values.out !== undefined) writeFileSync(values.out, text)
const isWhole = !values.reproduce && plant === null && values.faults === undefined
if (isWhole && !values['no-docs'] && reports.length > 0) writeReliabilityTable(summary, setting)
if (values.json) process.stdout.write(text)
else console.log(`${reports.length} of ${expected} seeds played, ${violations} violations, ${failures.length} failures`)
process.exitCode = violations > 0 ? 1 : failures.length > 0 || reports.length < expected ? 2 : 0
// Abandoned seeds may still send requests to stacks that are closed.
if (interrupted.aborted) process.exit()

function line({
  seed,
  kind,
  cells,
  episodes,
  turns,
  sampledAgain,
  restarts,
  wallS,
  violations: found,
}: SeedReport): string {
  const struck = cells.map(({ fault, phase, struck: did }) => `${fault} × ${phase}${did ? '' : ' (missed)'}`).join(', ')
  const again = restarts === 0 ? '' : `, started again ${restarts} times`
  const facts = `${kind}, ${struck}: ${episodes} episodes, ${turns} turns, ${sampledAgain} samples repeated${again}, ${wallS.toFixed(0)} s`
  if (found.length === 0) return `seed ${seed}: ${facts}: ok`
  const command = `npm run chaos -- --seeds 1 --first-seed ${seed}${values.faults === undefined ? '' : ` --faults ${values.faults}`}${values.reproduce ? ' --reproduce' : ''}${store === 'directory' ? '' : ` --store ${store}`}${sandboxes === 'pods' ? ' --sandboxes pods' : ''}`
  return `seed ${seed}: ${facts}: VIOLATED\n  ${found.join('\n  ')}\n  again: ${command}`
}
