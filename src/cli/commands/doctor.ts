import { type Command, Option } from 'commander'
import { LonghaulError } from '../../contracts/errors.ts'
import type { DoctorRole, DoctorTools } from '../../stack/doctor/finding.ts'
import { examples, jsonOption } from '../arguments/options.ts'
import type { CommandContext } from '../command-context.ts'
import { adoptLocalStack } from '../local-stack.ts'
import { untilInterrupted } from '../output/console.ts'
import { EXIT } from '../output/exit-codes.ts'
import { whileReporting } from '../output/live-lines.ts'
import { ROLES } from './stack.ts'

interface DoctorCommandOptions {
  role?: DoctorRole
  fix?: true
  dryRun?: true
  json?: true
}

export function addDoctor(program: Command, context: CommandContext): void {
  program
    .command('doctor')
    .description('check what would keep a run from working on this machine; without --fix it changes nothing')
    .addOption(new Option('--role <role>', 'only what a machine needs for this worker alone').choices(ROLES))
    .option('--fix', 'fix what is safe without confirmation: images, Python, namespace, overdue containers, dead locks')
    .option('--dry-run', 'with --fix: only say what it would do')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples(
        'longhaul doctor',
        'longhaul doctor --json | jq .level',
        'longhaul doctor --role sandbox --fix --dry-run',
        'TEMPORAL_ADDRESS=temporal:7233 longhaul doctor --role control --fix',
      ),
    )
    .addHelpText(
      'after',
      'Exit: 0 all is well, or only warnings; 2 something fails, also after --fix, or a fix failed.',
    )
    .action((options: DoctorCommandOptions) => examine(options, context))
}

async function examine({ role, fix, dryRun, json }: DoctorCommandOptions, context: CommandContext): Promise<void> {
  const { console, exit } = context
  if (dryRun === true && fix === undefined) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: 'Expected --dry-run beside --fix: looking changes nothing',
    })
  }
  const { doctor, doctorLines, mend, mendLines } = await import('../../stack/doctor/doctor.ts')
  const asked = { role: role ?? null, tools: await toolsOf(role) }
  if (fix === undefined) {
    const result = await doctor(asked)
    if (json === true) console.record(result)
    else console.out(doctorLines(result).join('\n'))
    if (result.level === 'fail') exit(EXIT.infra)
    return
  }
  let doing = 'looking at this machine'
  const result = await untilInterrupted((signal) =>
    whileReporting({ console, what: () => doing }, ({ note }) => {
      const log = (line: string): void => {
        doing = line
        note(line)
      }
      return mend({ ...asked, dryRun: dryRun === true, log, signal })
    }),
  )
  if (json === true) console.record(result)
  else console.out([...doctorLines(result), ...mendLines(result)].join('\n'))
  // A requested fix that failed is an error, even if the finding is only a warning.
  if (result.level === 'fail' || result.failed.length > 0) exit(EXIT.infra)
}

/** The check of a worker's variables and the reaper, as `longhaul worker` and `longhaul reap` use them. */
async function toolsOf(role: DoctorRole | undefined): Promise<DoctorTools> {
  const [{ reapHost }, { readWorkerEnvironment }] = await Promise.all([
    import('./reap-host.ts'),
    import('../../workers/worker-environment.ts'),
  ])
  // A worker on this machine gets its addresses from the running stack.
  if (role !== undefined) await adoptLocalStack()
  return {
    readEnvironment: () => void readWorkerEnvironment(),
    async reap({ isDryRun }) {
      const { report } = await reapHost({ isDryRun })
      return { removed: report.removed.length, failed: report.failed.length }
    },
  }
}
