import type { Command } from 'commander'
import type { CommandContext } from '../command-context.ts'
import { EXIT } from '../output/exit-codes.ts'
import { examples, jsonOption } from '../arguments/options.ts'

export function addDoctor(program: Command, { console, exit }: CommandContext): void {
  program
    .command('doctor')
    .description('look for what would keep a run from working here; changes nothing')
    .addOption(jsonOption())
    .addHelpText('after', examples('longhaul doctor', 'longhaul doctor --json | jq .level'))
    .action(async ({ json }: { json?: true }) => {
      const { doctor, doctorLines } = await import('../../stack/doctor/doctor.ts')
      const result = await doctor()
      if (json === true) console.record(result)
      else console.out(doctorLines(result).join('\n'))
      if (result.level === 'fail') exit(EXIT.infra)
    })
}
