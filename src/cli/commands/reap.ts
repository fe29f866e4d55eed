import type { Command } from 'commander'
import type { ReapedThing, ReapReport } from '../../adapters/docker/reaper/reap-orphaned.ts'
import type { CommandContext } from '../command-context.ts'
import { EXIT } from '../output/exit-codes.ts'
import { examples, hostName, jsonOption } from '../arguments/options.ts'

interface ReapOptions {
  dryRun?: true
  host?: string
  json?: true
}

export function addReap(program: Command, context: CommandContext): void {
  program
    .command('reap')
    .description('remove containers, networks and volumes that no run owns any more, as sandbox workers do every 30 s')
    .option('--dry-run', 'list what would be removed, and remove nothing')
    .option(
      '--host <id>',
      'sandbox host to act for (default: LONGHAUL_HOST_ID, else this machine in the local stack)',
      hostName,
    )
    .addOption(jsonOption())
    .addHelpText('after', examples('longhaul reap --dry-run', 'longhaul reap --json | jq ".removed | length"'))
    .action((options: ReapOptions) => reap(options, context))
}

async function reap(options: ReapOptions, { console, exit }: CommandContext): Promise<void> {
  const { reapHost } = await import('./reap-host.ts')
  const isDryRun = options.dryRun === true
  const { host, report } = await reapHost({ isDryRun, ...(options.host === undefined ? {} : { host: options.host }) })
  if (options.json === true) console.record({ host, dryRun: isDryRun, ...report })
  else console.out(describeReport(report, isDryRun).join('\n'))
  if (report.failed.length > 0) exit(EXIT.infra)
}

function describeReport({ removed, kept, failed }: ReapReport, isDryRun: boolean): string[] {
  const line = (verb: string) => (thing: ReapedThing & { why: string }) =>
    `${verb.padEnd(14)} ${thing.kind.padEnd(9)} ${thing.name}  ${thing.why}, ${thing.ageS} s old`
  return [
    ...removed.map(line(isDryRun ? 'would remove' : 'removed')),
    ...failed.map((thing) => `${line('not removed')(thing)}: ${thing.error}`),
    ...kept.map(line('kept')),
    `${removed.length} ${isDryRun ? 'to remove' : 'removed'}, ${failed.length} not removable, ${kept.length} kept`,
  ]
}
