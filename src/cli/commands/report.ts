import { writeFile } from 'node:fs/promises'
import type { Command } from 'commander'
import { renderHtmlReport } from '../../report/html-report.ts'
import { toJsonReport } from '../../report/json-report.ts'
import { renderTable, renderTextReport } from '../../report/text-report.ts'
import { dispositionTable, durationTable } from '../../report/tables.ts'
import type { CommandContext } from '../command-context.ts'
import { openStore } from '../local-stack.ts'
import { examples, jsonOption } from '../options.ts'
import { newestReport, reportOf } from '../show-report.ts'

export function addReport(program: Command, { console }: CommandContext): void {
  program
    .command('report')
    .argument('<run>', 'name of the run')
    .description('show a run from its records, finished or not')
    .option('--html <file>', 'write the HTML report there')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples('longhaul report demo-2026-11-20-a', 'longhaul report demo-2026-11-20-a --html report.html'),
    )
    .action(async (run: string, { html, json }: { html?: string; json?: true }) => {
      const store = await openStore()
      const data = await reportOf(store, run)
      if (html !== undefined) await writeFile(html, renderHtmlReport(data))
      if (json === true) {
        console.record(toJsonReport(data))
        return
      }
      const more = [dispositionTable(data), durationTable(data)].filter(({ rows }) => rows.length > 0)
      console.out([renderTextReport(data).trimEnd(), ...more.map(renderTable)].join('\n\n'))
      const stored = html ?? (await newestReport(store, run))?.htmlPath
      if (stored !== undefined) console.out(`HTML report  ${stored}`)
    })
}
