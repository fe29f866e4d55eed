import { setTimeout as sleep } from 'node:timers/promises'

import { COMMANDS, type CommandKind, faultOf, type Ran, type RecordedCommand } from './sandbox-commands.ts'
import type { SandboxBed } from './sandbox-bed.ts'
import { type Rival, ours } from './sandbox-rivals.ts'

export interface Quantiles {
  p50: number
  p95: number
}

export interface Overheads {
  /** Milliseconds of a trivial command, by rival. */
  trivial: Record<string, Quantiles>
  /** Median milliseconds by kind of command, then by rival. */
  kinds: Partial<Record<CommandKind, Record<string, number>>>
  /** Runs with the expected exit and output, by rival. */
  checked: Record<string, number>
  /** Rivals without figures, each with its first wrong result. */
  dropped: Record<string, string>
}

const TRUE = commandOf('true')
const HELLO = commandOf('echo hello')

function commandOf(text: string): RecordedCommand {
  const found = COMMANDS.find(({ command }) => command === text)
  if (found === undefined) throw new Error(`Expected ${text} among the recorded commands`)
  return found
}

/** @throws Error if the rival's result is wrong */
async function runChecked(rival: Rival, recorded: RecordedCommand): Promise<Ran> {
  const ran = await rival.run(recorded.command, recorded.timeoutMs)
  const fault = faultOf(recorded, ran, rival)
  if (fault !== null) throw new Error(`${rival.name}: ${fault}`)
  return ran
}

/** Every rival runs every command of the list in turn, in a rotating order, so that other load on the machine affects all alike.
 *  Trivial commands are repeated `rounds` times, the others `listRounds` times. A rival has no figures from its first wrong result
 *  on, because failing commands are fast. */
export async function measureOverheads(input: {
  rivals: Rival[]
  rounds: number
  listRounds: number
}): Promise<Overheads> {
  const { rounds, listRounds } = input
  const times = new Map<string, number[]>()
  const checked: Record<string, number> = {}
  const dropped: Record<string, string> = {}
  const rivals = [...input.rivals]
  let step = 0
  const play = async (commands: readonly RecordedCommand[]): Promise<void> => {
    for (const recorded of commands) {
      step += 1
      const turns = rivals.map((_, index) => rivals[(step + index) % rivals.length] as Rival)
      for (const rival of turns) {
        const key = `${recorded.kind} ${rival.name}`
        const ran = await rival.run(recorded.command, recorded.timeoutMs)
        const fault = faultOf(recorded, ran, rival)
        if (fault === null) {
          times.set(key, [...(times.get(key) ?? []), ran.ms])
          checked[rival.name] = (checked[rival.name] ?? 0) + 1
        } else {
          dropped[rival.name] = fault
          rivals.splice(rivals.indexOf(rival), 1)
          console.error(`${rival.name}: dropped, ${fault}`)
        }
      }
    }
  }
  // Trivial commands come first: a shell that serves a whole episode may be out of sync after a command that times out.
  for (let round = 0; round < rounds; round += 1) await play(COMMANDS.filter(({ kind }) => kind === 'trivial'))
  for (let round = 0; round < listRounds; round += 1) await play(COMMANDS.filter(({ kind }) => kind !== 'trivial'))
  const of = (kind: CommandKind, rival: Rival): number[] => times.get(`${kind} ${rival.name}`) ?? []
  const kinds: Overheads['kinds'] = {}
  for (const kind of new Set(COMMANDS.map((command) => command.kind))) {
    if (listRounds === 0 && kind !== 'trivial') continue
    kinds[kind] = Object.fromEntries(rivals.map((rival) => [rival.name, quantiles(of(kind, rival)).p50]))
  }
  const trivial = Object.fromEntries(rivals.map((rival) => [rival.name, quantiles(of('trivial', rival))]))
  return { trivial, kinds, checked, dropped }
}

export interface Readiness {
  /** Milliseconds from the request until the sandbox takes commands. */
  ours: Quantiles
  /** A container of the same specification, created and started, without anything in it. */
  bare: Quantiles
  ratio: number
}

/** The two alternate in going first, so that the engine's remaining work after a removal affects both alike. */
export async function measureReadiness({ bed, rounds }: { bed: SandboxBed; rounds: number }): Promise<Readiness> {
  const times: Record<'ours' | 'bare', number[]> = { ours: [], bare: [] }
  const makeBare = async (): Promise<void> => {
    const before = performance.now()
    const bare = await bed.createBare()
    await bare.start()
    times.bare.push(performance.now() - before)
    await bare.remove({ force: true })
  }
  const makeOurs = async (): Promise<void> => {
    const before = performance.now()
    const sandbox = await bed.open()
    times.ours.push(performance.now() - before)
    await bed.host.close(sandbox)
  }
  for (let round = 0; round < rounds; round += 1) {
    for (const make of round % 2 === 0 ? [makeBare, makeOurs] : [makeOurs, makeBare]) await make()
  }
  const [own, bare] = [quantiles(times.ours), quantiles(times.bare)]
  return { ours: own, bare, ratio: own.p50 / bare.p50 }
}

export interface Crowd {
  sandboxes: number
  /** Commands per second for each sandbox, at random moments. */
  rate: number
  commands: number
  alone: Quantiles
  together: Quantiles
  ratio: number
}

/** From the arrival of a command to its answer, including the wait for an earlier command of the same sandbox. */
export async function measureCrowd(input: { bed: SandboxBed; sandboxes: number; seconds: number }): Promise<Crowd> {
  const { bed, sandboxes, seconds } = input
  const rate = 2
  const rivals: Rival[] = []
  try {
    for (let index = 0; index < sandboxes; index += 1) {
      const rival = ours({ host: bed.host, sandbox: await bed.open() })
      rivals.push(rival)
      await runChecked(rival, TRUE)
    }
    const alone = await arrivals(rivals.slice(0, 1), rate, seconds)
    const together = await arrivals(rivals, rate, seconds)
    const [one, all] = [quantiles(alone), quantiles(together)]
    return { sandboxes, rate, commands: together.length, alone: one, together: all, ratio: all.p50 / one.p50 }
  } finally {
    for (const rival of rivals) await rival.close()
  }
}

async function arrivals(rivals: Rival[], rate: number, seconds: number): Promise<number[]> {
  const trivial = COMMANDS.filter(({ kind, command }) => kind === 'trivial' && !command.startsWith('cd'))
  const times: number[] = []
  const end = performance.now() + seconds * 1000
  await Promise.all(
    rivals.map(async (rival) => {
      const running: Promise<void>[] = []
      for (;;) {
        // Exponential gaps make the arrivals independent.
        await sleep((-Math.log(1 - Math.random()) / rate) * 1000)
        if (performance.now() > end) break
        const command = trivial[Math.floor(Math.random() * trivial.length)] as RecordedCommand
        const arrived = performance.now()
        const answered = runChecked(rival, command).then(() => void times.push(performance.now() - arrived))
        // Awaited at the end; until then a failure must not count as unhandled.
        answered.catch(() => undefined)
        running.push(answered)
      }
      await Promise.all(running)
    }),
  )
  return times
}

export interface Cost {
  commands: number
  /** CPU seconds for 1,000 commands: of the container, and of this process. */
  containerCpuS: number
  clientCpuS: number
  /** Resident memory of all processes in the container before the first and after the last command, in bytes. */
  memoryBefore: number
  memoryAfter: number
}

export async function measureCost({ bed, commands }: { bed: SandboxBed; commands: number }): Promise<Cost> {
  const sandbox = await bed.open()
  const rival = ours({ host: bed.host, sandbox })
  try {
    await runChecked(rival, TRUE)
    const container = bed.engine.docker.getContainer(sandbox.name)
    const before = { stats: usage(await container.stats({ stream: false })), cpu: process.cpuUsage() }
    for (let index = 0; index < commands; index += 1) await runChecked(rival, HELLO)
    const cpu = process.cpuUsage(before.cpu)
    const after = usage(await container.stats({ stream: false }))
    const scale = 1000 / commands
    return {
      commands,
      containerCpuS: (after.cpuS - before.stats.cpuS) * scale,
      clientCpuS: ((cpu.user + cpu.system) / 1e6) * scale,
      memoryBefore: before.stats.memory,
      memoryAfter: after.memory,
    }
  } finally {
    await rival.close()
  }
}

interface ContainerStats {
  cpu_stats: { cpu_usage: { total_usage: number } }
  memory_stats: { stats?: { total_rss?: number; anon?: number } }
}

/** Anonymous memory only: written files stay in the page cache until the kernel needs the memory. */
function usage({ cpu_stats: cpu, memory_stats: memory }: ContainerStats): { cpuS: number; memory: number } {
  return { cpuS: cpu.cpu_usage.total_usage / 1e9, memory: memory.stats?.total_rss ?? memory.stats?.anon ?? 0 }
}

export function quantiles(times: readonly number[]): Quantiles {
  const sorted = times.toSorted((a, b) => a - b)
  const at = (share: number): number => sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN
  return { p50: round(at(0.5)), p95: round(at(0.95)) }
}

function round(ms: number): number {
  return Math.round(ms * 100) / 100
}
