import { type Command, InvalidArgumentError } from 'commander'
import {
  type HostAnswer,
  type ListedHost,
  type SteerHostInput,
  drainHost,
  listHosts,
  uncordonHost,
} from '../../client/index.ts'
import { examples, hostName, jsonOption } from '../arguments/options.ts'
import type { CommandContext } from '../command-context.ts'
import { withConnection } from '../local-stack.ts'
import { EXIT } from '../output/exit-codes.ts'
import { dryRunOfReader } from './run.ts'

interface SteerOptions {
  json?: true
  dryRun?: true
}

export function addHost(program: Command, context: CommandContext): void {
  const host = program.command('host').description('list sandbox hosts, drain them, and return them to work')
  addList(host, context)
  withSteering(host.command('drain'))
    .description('give a host no new work; its episodes finish there or move to other hosts')
    .option('--move', 'move open episodes now: each after its turn, replayed on another host')
    .option(
      '--grace <duration>',
      'let open episodes run for this long, then move them: 30s, 10m, 2h or 1d; repeating the command changes nothing',
      duration,
    )
    .addHelpText(
      'after',
      examples(
        'longhaul host drain node-7',
        'longhaul host drain node-7 --grace 30m',
        'longhaul host drain node-7 --move',
      ),
    )
    .action(async (name: string, options: SteerOptions & { move?: true; grace?: number }) => {
      const { move, grace } = options
      if (move !== undefined && grace !== undefined) {
        context.console.err('error: say either --move or --grace <duration>')
        context.exit(EXIT.usage)
        return
      }
      await steer(name, options, context, (input) =>
        drainHost({ ...input, graceMs: move === true ? 0 : (grace ?? null) }),
      )
    })
  withSteering(host.command('uncordon'))
    .description('give a drained host work again')
    .addHelpText('after', examples('longhaul host uncordon node-7'))
    .action((name: string, options: SteerOptions) => steer(name, options, context, uncordonHost))
}

function withSteering(command: Command): Command {
  return command
    .argument('<host>', 'name of the host, as host list prints it', hostName)
    .option('--dry-run', 'say what would change, and change nothing')
    .addOption(jsonOption())
}

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
/** The Temporal server allows longer timers, but a longer grace means that episodes should not move at all. */
const LONGEST_GRACE_MS = 30 * 86_400_000

function duration(text: string): number {
  const [, count = '', unit = ''] = /^([1-9][0-9]{0,5})\s?(s|m|h|d)$/.exec(text) ?? []
  const ms = Number(count) * (UNITS[unit] ?? 0)
  if (ms > 0 && ms <= LONGEST_GRACE_MS) return ms
  throw new InvalidArgumentError(
    `Expected a duration such as 30s, 10m, 2h or 1d, up to 30d, got ${JSON.stringify(text)}.`,
  )
}

function addList(host: Command, { console }: CommandContext): void {
  host
    .command('list')
    .description('list sandbox hosts with their load and free capacity; needs only the Temporal server')
    .addOption(dryRunOfReader())
    .addOption(jsonOption())
    .addHelpText('after', examples('longhaul host list', 'longhaul host list --json'))
    .action(async ({ json }: { json?: true }) => {
      await withConnection(async (connection) => {
        const hosts = await listHosts({ connection })
        if (json === true) console.record({ hosts })
        else
          console.out(
            hosts.length === 0 ? 'no sandbox hosts: start one (longhaul worker --role sandbox)' : describeHosts(hosts),
          )
      })
    })
}

function steer(
  host: string,
  { json, dryRun }: SteerOptions,
  { console }: CommandContext,
  action: (input: SteerHostInput) => Promise<HostAnswer>,
): Promise<void> {
  return withConnection(async (connection) => {
    const answer = await action({ connection, host, dryRun: dryRun === true })
    if (json === true) console.record({ ...answer, ...(dryRun === true ? { dryRun } : {}) })
    else console.out(describeHostAnswer(answer, dryRun === true))
  })
}

function describeHosts(hosts: readonly ListedHost[]): string {
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

function describeHostAnswer({ host, changed, note, state, pending }: HostAnswer, dryRun: boolean): string {
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
