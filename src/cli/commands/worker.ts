import { type Command, Option } from 'commander'
import type { CommandContext } from '../command-context.ts'
import { adoptLocalStack } from '../local-stack.ts'
import { examples } from '../arguments/options.ts'

/** As `src/workers/run-worker.ts` names them; repeated here so that help needs no native module. */
const ROLES = ['control', 'sandbox', 'trainer', 'artifacts', 'all'] as const

export function addWorker(program: Command, _context: CommandContext): void {
  program
    .command('worker')
    .description('run a worker until SIGTERM; longhaul up starts them on one machine, a cluster starts them itself')
    .addOption(new Option('--role <role>', 'what it serves').choices(ROLES).makeOptionMandatory())
    .addHelpText(
      'after',
      examples(
        'longhaul worker --role control',
        'TEMPORAL_ADDRESS=temporal:7233 LONGHAUL_ARTIFACTS=/mnt/longhaul longhaul worker --role sandbox',
      ),
    )
    .action(async ({ role }: { role: (typeof ROLES)[number] }) => {
      await adoptLocalStack()
      const { runWorker } = await import('../../workers/run-worker.ts')
      await runWorker({ role })
    })
}
