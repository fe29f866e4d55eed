import type { HostAnswer, ListedHost } from '../../client/index.ts'

export function describeHosts(hosts: readonly ListedHost[]): string {
  const head = ['host', 'state', 'since', 'sandboxes', 'gradings', 'CPU', 'GiB', 'last sign', 'queue']
  const rows = hosts.map(({ host, state, facts, lastSign, queue }) => [
    host,
    state,
    facts === null ? '–' : minute(facts.since),
    facts === null ? '–' : String(facts.sandboxes),
    facts === null ? '–' : String(facts.gradings),
    facts === null ? '–' : `${round(facts.requested.cpus)} of ${round(facts.capacity.cpus)}`,
    facts === null ? '–' : `${gib(facts.requested.memoryMiB)} of ${gib(facts.capacity.memoryMiB)}`,
    lastSign === null ? '–' : lastSign.slice(11, 19),
    queue,
  ])
  const table = [head, ...rows]
  const widths = head.map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0)))
  const lines = table.map((row) =>
    row
      .map((text, column) => text.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
  return [...lines, ...hosts.flatMap(notes)].join('\n')
}

export function describeHostAnswer({ host, changed, note, state, pending }: HostAnswer, dryRun: boolean): string {
  const result = dryRun
    ? changed
      ? 'would change'
      : 'nothing would change'
    : pending
      ? 'recorded'
      : changed
        ? 'changed'
        : 'nothing changed'
  const { drain, facts } = state
  const held = facts === null ? '' : `, ${facts.sandboxes} sandboxes and ${facts.gradings} gradings open`
  const now = drain === null ? 'takes work' : `drained since ${drain.since}, ${fate(state)}`
  return [`${host}: ${result}${note === null ? '' : `; ${note}`}`, `${dryRun ? 'then' : 'now'}  ${now}${held}`].join(
    '\n',
  )
}

function notes(one: ListedHost): string[] {
  const { host, drain, facts } = one
  return [
    ...(drain === null ? [] : [`${host}: drained since ${drain.since}, ${fate(one)}`]),
    ...(facts?.trouble ? [`${host}: its engine does not answer: ${facts.trouble}`] : []),
  ]
}

function fate({ drain }: ListedHost): string {
  if (drain?.moving === true) return 'open episodes move to other hosts'
  const moveAt = drain?.moveAt ?? null
  if (moveAt !== null) return `open episodes play on until ${moveAt}, then move`
  return 'open episodes play to their end'
}

function minute(time: string): string {
  return time.slice(0, 16).replace('T', ' ')
}

function round(value: number): string {
  return String(Number(value.toFixed(2)))
}

function gib(memoryMiB: number | null): string {
  return memoryMiB === null ? '∞' : round(memoryMiB / 1024)
}
