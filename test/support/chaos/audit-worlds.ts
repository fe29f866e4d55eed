/**
 * A turn N > 0 may only run in a sandbox that has seen turns 0 … N−1. Judged by the requests to each container and by its journal;
 * the records only say which turns had a command, and under which token.
 */
import type { AuditEntry } from './audit-log.ts'
import type { ContainerJournal } from './container-journal.ts'

/** Tokens of an episode's turns that ran a command, by turn. */
export type CommandTurns = ReadonlyMap<number, string>

export interface WorldsInput {
  entries: readonly AuditEntry[]
  journals: readonly ContainerJournal[]
  /** By episode; null for an episode of another run. */
  commandsOf: (episode: string) => CommandTurns | null
}

export function auditWorlds({ entries, journals, commandsOf }: WorldsInput): string[] {
  const episodeOf = new Map(
    entries.flatMap((entry) => (entry.kind === 'opened' ? [[entry.container, entry.episode] as const] : [])),
  )
  for (const { container, episode } of journals) episodeOf.set(container, episode)
  const faults: string[] = []
  for (const [container, episode] of episodeOf) {
    const commands = commandsOf(episode)
    if (commands === null) continue
    faults.push(...requestFaults({ episode, container, entries, commands }))
    const own = journals.filter((journal) => journal.container === container)
    faults.push(...own.flatMap((journal) => journalFaults(journal, commands)))
  }
  return [...new Set(faults)]
}

/** Faults in the requests of workers to one container. A turn whose answer never arrived may have run. */
function requestFaults(input: {
  episode: string
  container: string
  entries: readonly AuditEntry[]
  commands: CommandTurns
}): string[] {
  const { episode, container, entries, commands } = input
  const faults: string[] = []
  const mayHold = new Set<number>()
  const answered = new Set<number>()
  const open = new Map<string, number>()
  for (const entry of entries) {
    if (entry.kind === 'turn-begins' && entry.container === container) {
      open.set(`${entry.process} ${entry.turn} ${entry.token}`, entry.turn)
      mayHold.add(entry.turn)
    }
    if (entry.kind !== 'turn-ends' || entry.container !== container) continue
    open.delete(`${entry.process} ${entry.turn} ${entry.token}`)
    if (entry.code !== null) {
      const mayHaveRun = answered.has(entry.turn) || [...open.values()].includes(entry.turn)
      if (isRefusal(entry.code) && !mayHaveRun) mayHold.delete(entry.turn)
      continue
    }
    answered.add(entry.turn)
    const missing = [...commands.keys()].filter((turn) => turn < entry.turn && !mayHold.has(turn))
    if (missing.length > 0) faults.push(outOfOrder(episode, entry.turn, container, missing))
  }
  return faults
}

/** The sandbox refused the request. Any other failure leaves its effect open. */
function isRefusal(code: string): boolean {
  return code.startsWith('Sandbox.')
}

function journalFaults({ episode, container, done }: ContainerJournal, commands: CommandTurns): string[] {
  const faults: string[] = []
  const held = new Set(done.map(({ turn }) => turn))
  const last = Math.max(-1, ...held)
  const missing = [...commands.keys()].filter((turn) => turn < last && !held.has(turn))
  if (missing.length > 0) faults.push(outOfOrder(episode, last, container, missing))
  for (const { turn, token } of done) {
    const recorded = commands.get(turn)
    if (recorded !== undefined && recorded !== token) {
      faults.push(
        `${episode} turn ${turn} was executed in ${short(container)} under ${token}, its record says ${recorded}`,
      )
    }
  }
  for (const [turn, all] of Map.groupBy(done, ({ turn: one }) => one)) {
    if (all.length > 1) faults.push(`${episode} turn ${turn} was executed ${all.length} times in ${short(container)}`)
  }
  return faults
}

function outOfOrder(episode: string, turn: number, container: string, missing: readonly number[]): string {
  return `${episode} turn ${turn} was executed in ${short(container)}, which has not executed turn ${missing.join(', ')}`
}

function short(container: string): string {
  return container.slice(0, 12)
}
