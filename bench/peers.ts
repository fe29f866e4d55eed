/**
 * The same tasks with the same scripted model, played by Longhaul and by other projects' runners, each with its own sandbox and
 * grading.
 *
 *   npm run bench:peers -- [--tasks 4] [--turns 16] [--workers 2] [--runners longhaul,mini-swe-agent,inspect] [--no-kill]
 *                          [--rows FILE --repos DIRECTORY [--only TASK,…]] [--compose FILE] [--out FILE] [--json]
 *
 * One engine of the bench's own, one scripted model behind an OpenAI-compatible endpoint, and tasks with the columns of SWE-bench:
 * synthetic ones, or real rows with --rows and --repos (as for bench:real). Every third agent submits a patch that repairs nothing.
 * Each runner plays twice: undisturbed, and with all its processes killed (SIGKILL) after half of the model's answers, while the
 * engine and the model survive; the same command is then started again. mini-swe-agent and Inspect come from the package registry,
 * pinned by hash, into the user's cache; a runner that cannot run here is left out with the reason.
 *
 * CPU seconds include all processes that a runner starts, the engine and its containers, measured by a control group; the bench and
 * the model are not included. The output of every command and every verdict are checked. Needs root, dockerd, the docker client and
 * writable control groups. Exit 1 if an output or a verdict is not what the script implies, in an undisturbed run or in any run of
 * Longhaul; 2 if nothing was compared.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { listProcesses, withDescendants } from '../src/platform/processes.ts'
import { stackPaths } from '../src/stack/paths.ts'
import { startTestEngine, type TestEngine } from '../test/support/chaos/private-test-engine.ts'
import { benchArguments, refuseArguments } from './support/arguments.ts'
import { conclude, endWith2OnError } from './support/conclude.ts'
import { interruption } from './support/interruption.ts'
import { inspectRunner } from './support/peers/inspect.ts'
import { longhaulRunner } from './support/peers/longhaul.ts'
import { miniSweAgentRunner } from './support/peers/mini-swe-agent.ts'
import { makeProcessGroup } from './support/peers/process-group.ts'
import { type Lap, race } from './support/peers/race.ts'
import type { Runner } from './support/peers/runner.types.ts'
import { realTasks, syntheticTasks } from './support/peers/tasks.ts'
import { versions } from './support/versions.ts'
import { wholeNumbers } from './support/whole-numbers.ts'

const RUNNERS: Record<string, () => Promise<Runner>> = {
  longhaul: async () => longhaulRunner(),
  'mini-swe-agent': miniSweAgentRunner,
  inspect: () => inspectRunner({ compose: values.compose ?? null }),
}

interface Result {
  runner: string
  versions: Record<string, string>
  notes: string[]
  undisturbed: Lap
  killed: Lap | null
}

endWith2OnError()
const { values } = benchArguments({
  options: {
    tasks: { type: 'string', default: '4' },
    turns: { type: 'string', default: '16' },
    workers: { type: 'string', default: '2' },
    runners: { type: 'string', default: 'longhaul,mini-swe-agent,inspect' },
    'no-kill': { type: 'boolean', default: false },
    rows: { type: 'string' },
    repos: { type: 'string' },
    only: { type: 'string', multiple: true },
    compose: { type: 'string' },
    out: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
})
const names = values.runners.split(',')
const strange = names.filter((name) => !Object.hasOwn(RUNNERS, name))
if (strange.length > 0)
  refuseArguments(`Expected --runners of ${Object.keys(RUNNERS).join(', ')}, got ${strange.join(', ')}`)
const {
  tasks: count,
  turns,
  workers,
} = wholeNumbers({
  tasks: values.tasks,
  turns: values.turns,
  workers: values.workers,
})
if ((values.rows === undefined) !== (values.repos === undefined))
  refuseArguments('Expected --rows and --repos together')

const signal = interruption()
// Short, because socket paths below it have a length limit.
const folder = await mkdtemp(join(tmpdir(), 'lhp-'))
const group = makeProcessGroup(`longhaul-peers-${process.pid}`)
const loadBefore = loadavg()[0]
try {
  const bed = await startTestEngine({
    folder: join(folder, 'e'),
    imageCache: join(stackPaths().cacheDir, 'images'),
    log: (text) => console.error(text),
    flags: ['--cgroup-parent', group.containers],
  })
  try {
    const { engine } = bed
    await enterEngine(bed)
    const tasks =
      values.rows === undefined || values.repos === undefined
        ? await syntheticTasks({ engine, count })
        : await realTasks({
            engine,
            count,
            signal,
            rows: values.rows,
            repos: values.repos,
            only: new Set((values.only ?? []).flatMap((text) => text.split(','))),
          })
    const results: Result[] = []
    const leftOut: Record<string, string> = {}
    const resultNow = () => ({
      bench: 'peers',
      ...versions(),
      engine: engine.version,
      loadAverage: { before: loadBefore, after: loadavg()[0] },
      tasks: { kind: values.rows === undefined ? 'synthetic' : 'real', ids: tasks.map(({ task }) => task.taskId) },
      turns,
      workers,
      cpuRatioToBestPeer: ratioOf(results, ({ start, play }) => start.cpuSeconds + play.cpuSeconds),
      /** With a stack that is already running. */
      cpuRatioWithoutServices: ratioOf(results, ({ play }) => play.cpuSeconds),
      results,
      leftOut,
    })
    for (const name of names) {
      const runner = await (RUNNERS[name] as () => Promise<Runner>)().catch((error: unknown) => String(error))
      if (typeof runner === 'string') {
        leftOut[name] = runner.slice(0, 600)
        console.error(`${name} is left out: ${runner}`)
        continue
      }
      const lap = (isKilled: boolean): Promise<Lap> =>
        race({
          runner,
          tasks,
          engine,
          group,
          turns,
          workers,
          signal,
          isKilled,
          folder: join(folder, `${name}-${isKilled ? 'killed' : 'undisturbed'}`),
          limitMs: 60_000 * (10 + tasks.length * 10),
        })
      const undisturbed = await lap(false)
      console.error(line(name, undisturbed))
      const killed = values['no-kill'] ? null : await lap(true)
      if (killed !== null) console.error(line(name, killed))
      results.push({ runner: name, versions: runner.versions, notes: runner.notes, undisturbed, killed })
      if (values.out !== undefined) await writeFile(values.out, `${JSON.stringify(resultNow(), null, 2)}\n`)
    }
    console.log(values.json ? JSON.stringify(resultNow(), null, 2) : tableOf(results))
    const faults = results.flatMap(({ runner, undisturbed, killed }) => [
      ...undisturbed.faults.map((text) => `${runner}: ${text}`),
      ...(runner === 'longhaul' ? (killed?.faults ?? []).map((text) => `${runner}, killed: ${text}`) : []),
    ])
    for (const fault of faults) console.error(fault)
    process.exitCode = conclude({
      compared: { tasks: tasks.length, peers: results.filter(({ runner }) => runner !== 'longhaul').length },
      violations: faults.length,
    })
  } finally {
    await bed.close()
  }
} finally {
  await group.close()
  await rm(folder, { recursive: true, force: true })
}

/** Puts the engine, its containerd and everything that they start from now on into the group. */
async function enterEngine({ daemon }: TestEngine): Promise<void> {
  const { pid } = await daemon()
  const all = listProcesses()
  const root = all.find((one) => one.pid === pid)
  for (const one of root === undefined ? [] : withDescendants(root, all)) group.take('engine', one.pid)
}

/** Longhaul's undisturbed run divided by the cheapest peer's. */
function ratioOf(results: readonly Result[], cost: (lap: Lap) => number): number | null {
  const ours = results.find(({ runner }) => runner === 'longhaul')
  const peers = results.filter(({ runner }) => runner !== 'longhaul').map(({ undisturbed }) => cost(undisturbed))
  if (ours === undefined || peers.length === 0) return null
  return Math.round((cost(ours.undisturbed) / Math.min(...peers)) * 100) / 100
}

function line(name: string, { start, play, peakMemoryMiB, kill, faults }: Lap): string {
  return [
    `${name}${kill === null ? '' : ', killed'}`,
    `start ${start.cpuSeconds} CPU s`,
    `play ${play.wallSeconds} s, ${play.cpuSeconds} CPU s`,
    `${peakMemoryMiB} MiB`,
    ...(kill === null ? [] : [JSON.stringify(kill)]),
    `${faults.length} faults`,
  ].join('  ')
}

/** The table of `docs/benchmarks.md`. */
function tableOf(results: readonly Result[]): string {
  const columns = [
    'runner',
    'wall s',
    'CPU s',
    'CPU s of services',
    'CPU s a task',
    'peak MiB',
    'commands/s',
    'after the kill: finished',
    'commands again',
    'episodes again',
    'answers again',
    'containers left',
    'CPU s in all',
  ]
  const rows = results.map(({ runner, undisturbed: { start, play, ...one }, killed }) => [
    runner,
    play.wallSeconds,
    play.cpuSeconds,
    start.cpuSeconds,
    one.cpuSecondsATask,
    one.peakMemoryMiB,
    one.commandsASecond,
    ...(killed === null ? [] : killedCells(killed)),
  ])
  return [columns, columns.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

function killedCells({ kill, play }: Lap): (string | number)[] {
  if (kill === null) return []
  const { finished, commandsRepeated, episodesRepeated, answersRepeated, containersLeft } = kill
  const did = finished ? 'yes' : 'no'
  return [did, commandsRepeated, episodesRepeated, answersRepeated, containersLeft, play.cpuSeconds]
}
