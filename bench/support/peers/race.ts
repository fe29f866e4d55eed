/** One run of a runner: undisturbed, or with all its processes killed half-way and started again. */
import { mkdir } from 'node:fs/promises'
import type { Engine } from '../../../src/adapters/docker/engine/engine.ts'
import { runCommand } from '../../../src/platform/run-command.ts'
import type { ProcessGroup } from './process-group.ts'
import type { RunInput, Runner } from './runner.types.ts'
import { NOTES, type PeerTask } from './script.ts'
import { startScriptedModel, type ScriptedModel } from './scripted-model.ts'

export interface RaceInput {
  runner: Runner
  tasks: readonly PeerTask[]
  engine: Engine
  group: ProcessGroup
  folder: string
  turns: number
  workers: number
  limitMs: number
  signal: AbortSignal
}

export interface Lap {
  /** Starting the standing services until they are ready. */
  start: Cost
  /** From the command to the last verdict. */
  play: Cost
  cpuSecondsATask: number
  /** All processes together, including engine and containers. */
  peakMemoryMiB: number
  commandsASecond: number
  verdicts: Record<string, string | null>
  /** Outputs, verdicts and endings that the script does not imply. */
  faults: string[]
  /** Null for an undisturbed run. */
  kill: Kill | null
}

export interface Cost {
  wallSeconds: number
  cpuSeconds: number
}

export interface Kill {
  /** The model's answers before the kill. */
  answersBefore: number
  processes: number
  finished: boolean
  /** From the second command to the last verdict, including its services as in `start`. */
  finish: Cost
  /** Executions beyond one of each command. */
  commandsRepeated: number
  /** Tasks that started again in another container. */
  episodesRepeated: number
  /** Answers beyond one for each turn. */
  answersRepeated: number
  /** Containers that still ran at the end. */
  containersLeft: number
}

export async function race(input: RaceInput & { isKilled: boolean }): Promise<Lap> {
  const { runner, tasks, engine, group, folder, turns, workers, limitMs, isKilled } = input
  await mkdir(folder, { recursive: true })
  const model = await startScriptedModel({ tasks, turns, endings: runner.endings })
  const limit = AbortSignal.any([AbortSignal.timeout(limitMs), input.signal])
  const run: RunInput = {
    tasks,
    folder,
    turns,
    workers,
    engineHost: engine.host,
    modelUrl: model.url,
    async run({ command, args, env, cwd }) {
      const entered = group.enter('driver', command, args)
      const { exitCode, stdout, tail } = await runCommand({
        ...entered,
        ...(env === undefined ? {} : { env }),
        ...(cwd === undefined ? {} : { cwd }),
        timeoutMs: limitMs,
        signal: limit,
      })
      if (exitCode !== 0) throw new Error(`${runner.name}: ${command} ended with ${exitCode}\n${tail}`)
      return stdout
    },
  }
  try {
    await runner.prepare(run)
    const memory = group.watchMemory()
    const start = await costOf(group, () => runner.start(run))
    const killed: { kill: Kill | null } = { kill: null }
    let play = await costOf(group, async () => {
      if (isKilled) killed.kill = await killHalfWay(input, { run, model })
      else await runner.play(run, false)
    })
    if (killed.kill !== null) {
      const again = await costOf(group, async () => {
        await runner.start(run)
        await runner.play(run, true)
      }).catch((error: unknown) => String(error))
      if (typeof again === 'string') model.faults.push(`it does not finish: ${again.slice(0, 600)}`)
      else {
        play = add(play, again)
        killed.kill = { ...killed.kill, finished: true, finish: again }
      }
      killed.kill = { ...killed.kill, ...repeated({ model, runner, tasks, turns }) }
    }
    memory.stop()
    const verdicts = await runner.verdicts(run)
    const left = await runningContainers(engine)
    const faults = [...model.faults, ...faultsOf(verdicts, tasks)]
    await runner.stop(run)
    return {
      start,
      play,
      cpuSecondsATask: round((start.cpuSeconds + play.cpuSeconds) / tasks.length),
      peakMemoryMiB: Math.round(memory.peak() / 2 ** 20),
      commandsASecond: round((tasks.length * turns) / play.wallSeconds),
      verdicts: Object.fromEntries(tasks.map(({ task: { taskId } }) => [taskId, verdicts.get(taskId) ?? null])),
      faults,
      kill: killed.kill === null ? null : { ...killed.kill, containersLeft: left.length },
    }
  } finally {
    await group.kill('driver')
    await model.close()
    for (const { Id } of await engine.docker.listContainers({ all: true })) {
      await engine.docker
        .getContainer(Id)
        .remove({ force: true })
        .catch(() => undefined)
    }
  }
}

/** Kills every process of the runner at once after half of the model's answers. */
async function killHalfWay(
  { runner, tasks, engine, group, turns }: RaceInput,
  { run, model }: { run: RunInput; model: ScriptedModel },
): Promise<Kill> {
  const all = tasks.length * (turns + runner.endings.length)
  const playing = runner.play(run, false).then(
    () => 'it ended before it was killed',
    (error: unknown) => String(error),
  )
  const first = await Promise.race([model.after(Math.ceil(all / 2)).then(() => null), playing])
  if (first !== null) throw new Error(`${runner.name}: ${first}`)
  const processes = await group.kill('driver')
  await playing
  // The containers record commands that ran but were not reported to the model.
  for (const { Id } of await runningContainers(engine)) {
    for (const { taskId, box, lines } of await notesOf(engine, Id)) model.addBox(taskId, box, lines)
  }
  const nothing = { wallSeconds: 0, cpuSeconds: 0 }
  return {
    answersBefore: model.answers(),
    processes,
    finished: false,
    finish: nothing,
    commandsRepeated: 0,
    episodesRepeated: 0,
    answersRepeated: 0,
    containersLeft: 0,
  }
}

function repeated(input: {
  model: ScriptedModel
  runner: Runner
  tasks: readonly PeerTask[]
  turns: number
}): Pick<Kill, 'commandsRepeated' | 'episodesRepeated' | 'answersRepeated'> {
  const { model, runner, tasks, turns } = input
  const ran = [...model.boxes.values()].flatMap((boxes) => [...boxes.values()])
  return {
    commandsRepeated: ran.reduce((sum, lines) => sum + lines, 0) - tasks.length * turns,
    episodesRepeated: [...model.boxes.values()].filter((boxes) => boxes.size > 1).length,
    answersRepeated: model.answers() - tasks.length * (turns + runner.endings.length),
  }
}

function faultsOf(verdicts: ReadonlyMap<string, string | null>, tasks: readonly PeerTask[]): string[] {
  return tasks.flatMap(({ task: { taskId }, expected }) => {
    const found = verdicts.get(taskId) ?? null
    return found === expected ? [] : [`${taskId}: ${found ?? 'no verdict'}, the script implies ${expected}`]
  })
}

async function costOf(group: ProcessGroup, action: () => Promise<void>): Promise<Cost> {
  const [began, before] = [performance.now(), group.cpuSeconds()]
  await action()
  return { wallSeconds: round((performance.now() - began) / 1000), cpuSeconds: round(group.cpuSeconds() - before) }
}

function add(one: Cost, other: Cost): Cost {
  return {
    wallSeconds: round(one.wallSeconds + other.wallSeconds),
    cpuSeconds: round(one.cpuSeconds + other.cpuSeconds),
  }
}

async function runningContainers({ docker }: Engine): Promise<{ Id: string }[]> {
  return docker.listContainers()
}

/** Empty if the container belongs to no agent. */
async function notesOf(engine: Engine, id: string): Promise<{ taskId: string; box: string; lines: number }[]> {
  const { stdout, exitCode } = await runCommand({
    command: 'docker',
    args: ['exec', id, 'cat', NOTES],
    env: { ...process.env, DOCKER_HOST: engine.host },
    timeoutMs: 60_000,
  })
  const [box = '', ...lines] = stdout.trim().split('\n')
  const taskId = lines[0]?.split(' ')[0] ?? ''
  return exitCode === 0 && taskId !== '' ? [{ taskId, box, lines: lines.length }] : []
}

function round(value: number): number {
  return Math.round(value * 100) / 100
}
