/**
 * Many concurrent episodes on one Temporal server with PostgreSQL: the real workflows, control worker, activities and records, with
 * scripted sandboxes and a scripted policy.
 *
 *   npm run bench:scale -- [--episodes 100,1000,10000] [--turns 60] [--group 10] [--turns-per-step 8] [--hosts 4] [--think 0]
 *                          [--kill-every 0] [--together] [--directory DIR] [--json] [--out FILE]
 *
 * All episodes of a size are open at once. Prints for each size: turns per second; CPU time per turn of control worker, hosts (which
 * write the records), server and database; memory and its growth; the slowest answer to the requests of a page; the histories'
 * lengths; and, on the same server just before, the leanest workflows with as many activities, alone and in the shape of a rollout.
 * Afterwards the ledger is counted: each episode and each turn once. `--kill-every S` kills the control worker, a host or the server in
 * turn, one of them every S seconds. `--think MS` is the time of a sample. With `--together`, no first sample is answered before every
 * episode waits for its own, so all of them are live at one time.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DefaultLogger, Runtime } from '@temporalio/worker'
import { unlessAborted } from '../src/platform/unless-aborted.ts'
import { playProbe, playScale, startScaleStack, type ScalePlayed } from '../test/support/scale/play-scale.ts'
import { benchArguments } from './support/arguments.ts'
import { conclude, endWith2OnError } from './support/conclude.ts'
import { interruption } from './support/interruption.ts'
import { versions } from './support/versions.ts'

interface Row extends Omit<ScalePlayed, 'audit'> {
  episodes: number
  turns: number
  /** Turns per second of the leanest workflows with as many activities. */
  probeTurnsPerS: number
  /** The same in the shape of a rollout, with activities on another worker's queue. */
  treeTurnsPerS: number
  replayed: number
  problems: string[]
}

/** Activities other than steps: open, capture, grade, close. */
const OTHER_ACTIVITIES = 4
const MOST_PROBED = 500
const TIMEOUT_MS = 4 * 3_600_000

endWith2OnError()
const { values } = benchArguments({
  options: {
    episodes: { type: 'string', default: '100,1000,10000' },
    turns: { type: 'string', default: '60' },
    group: { type: 'string', default: '10' },
    'turns-per-step': { type: 'string', default: '8' },
    hosts: { type: 'string', default: '4' },
    think: { type: 'string', default: '0' },
    'kill-every': { type: 'string', default: '0' },
    together: { type: 'boolean', default: false },
    directory: { type: 'string', default: tmpdir() },
    json: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
})

Runtime.install({ logger: new DefaultLogger('ERROR') })
const facts = versions()
const folder = await mkdtemp(join(values.directory, 'longhaul-scale-'))
const interrupted = interruption()
const stack = await startScaleStack({ home: join(folder, 'home'), temporal: 'postgres', signal: interrupted })
const rows: Row[] = []
try {
  for (const episodes of values.episodes.split(',').map(Number)) {
    rows.push(await unlessAborted(playSize(episodes), interrupted))
  }
} finally {
  await stack.stop()
  await rm(folder, { recursive: true, force: true })
}
const result = { bench: 'scale', date: facts.provenance.date, ...facts, options: values, rows }
const text = JSON.stringify(result, null, 2)
if (values.out !== undefined) await writeFile(values.out, `${text}\n`)
console.log(values.json ? text : rows.map(describe).join('\n\n'))
process.exitCode = conclude({
  compared: { episodes: rows.reduce((sum, { episodes }) => sum + episodes, 0) },
  violations: rows.reduce((sum, { problems }) => sum + problems.length, 0),
})

async function playSize(episodes: number): Promise<Row> {
  const turns = Number(values.turns)
  const turnsPerStep = Number(values['turns-per-step'])
  const groupSize = Math.min(episodes, Number(values.group))
  const activities = Math.ceil(turns / turnsPerStep) + OTHER_ACTIVITIES
  const probed = await playProbe(stack, {
    groups: Math.floor(Math.min(episodes, MOST_PROBED) / groupSize),
    groupSize,
    activities,
  })
  const place = await mkdtemp(join(folder, `${episodes}-`))
  const killEvery = Number(values['kill-every'])
  const { audit, ...played } = await playScale({
    stack,
    folder: place,
    shape: { run: `scale-${episodes}`, tasks: Math.floor(episodes / groupSize), groupSize, turns, turnsPerStep },
    hosts: Number(values.hosts),
    thinkMs: Number(values.think),
    killEveryMs: killEvery === 0 ? null : killEvery * 1_000,
    together: values.together ? episodes : 1,
    timeoutMs: TIMEOUT_MS,
    onProgress: progressPrinter(episodes),
  })
  await rm(place, { recursive: true, force: true })
  return {
    episodes,
    turns,
    probeTurnsPerS: (probed.alone * turns) / activities,
    treeTurnsPerS: (probed.tree * turns) / activities,
    replayed: audit.replayed,
    problems: audit.problems,
    ...played,
  }
}

function progressPrinter(episodes: number): (line: string) => void {
  let lastMs = 0
  return (line) => {
    if (performance.now() - lastMs < 30_000) return
    lastMs = performance.now()
    console.error(`scale   ${episodes} episodes: ${line}`)
  }
}

function describe(row: Row): string {
  const all = row.episodes * row.turns
  const parts = Object.entries(row.parts).map(([name, { cpuS, peakMiB, slope }]) => {
    const growth = slope === null ? '' : `, ${slope.toFixed(2)} MiB/min`
    return `${name} ${((cpuS * 1000) / all).toFixed(2)} ms a turn, ${peakMiB.toFixed(0)} MiB${growth}`
  })
  const histories = Object.entries(row.histories).map(
    ([name, { events, bytes }]) => `${name} ${events} events ${bytes} B`,
  )
  const slowest = Object.entries(row.slowestMs).map(
    ([name, ms]) => `${name} ${ms.toFixed(0)} ms (${(row.slowestAtS[name] ?? 0).toFixed(0)} s after the start)`,
  )
  return [
    `${row.episodes} episodes of ${row.turns} turns, ${row.live} live at once, in ${row.wallS.toFixed(0)} s`,
    `  ${row.turnsPerS.toFixed(0)} turns/s, the leanest workflows ${row.probeTurnsPerS.toFixed(0)} alone, ${row.treeTurnsPerS.toFixed(0)} as a rollout: ${(row.turnsPerS / row.probeTurnsPerS).toFixed(2)} × and ${(row.turnsPerS / row.treeTurnsPerS).toFixed(2)} ×`,
    ...parts.map((line) => `  ${line}`),
    `  slowest answers: ${slowest.join(', ')}`,
    `  histories: ${histories.join(', ')}`,
    `  kills: ${JSON.stringify(row.kills)}; commands replayed ${row.replayed}`,
    `  ledger: ${row.problems.length === 0 ? 'each episode and each turn once' : row.problems.slice(0, 5).join('; ')}`,
  ].join('\n')
}
