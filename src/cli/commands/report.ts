import { resolve } from 'node:path'
import type { Command } from 'commander'
import { renderHtmlReport } from '../../report/html-report.ts'
import { toJsonReport } from '../../report/json-report.ts'
import { renderTable, renderTextReport } from '../../report/text-report.ts'
import {
  costTable,
  dispositionTable,
  effortTable,
  flakyTable,
  officialTable,
  passAtKTable,
  verdictTable,
} from '../../report/evaluation-tables.ts'
import { lineageTable, lostCostTable, policyTable, resolvedCostTable, runCostTable } from '../../report/cost-tables.ts'
import { suiteTable } from '../../report/suite-table.ts'
import { durationTable } from '../../report/tables.ts'
import { recomputeReport } from '../../activities/evaluation/recompute-report.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { CommandContext } from '../command-context.ts'
import { EXIT } from '../output/exit-codes.ts'
import { openStore } from '../local-stack.ts'
import { examples, jsonOption, runName } from '../arguments/options.ts'
import { requireKnownRun } from '../../activities/run/run-names.ts'
import { readGrading, readGradingContext, renderGrading, newestReport, reportOf } from '../output/show-report.ts'
import { requireWritable, writeResult } from '../output/require-writable.ts'

/** Tables beyond those at the end of a run. */
const MORE_TABLES = [
  officialTable,
  passAtKTable,
  suiteTable,
  dispositionTable,
  verdictTable,
  effortTable,
  costTable,
  runCostTable,
  resolvedCostTable,
  lostCostTable,
  flakyTable,
  durationTable,
  lineageTable,
  policyTable,
]

export function addReport(program: Command, context: CommandContext): void {
  program
    .command('report')
    .argument('<run>', 'name of the run', runName)
    .description('show a run from its records, finished or not')
    .option('--html <file>', 'write the HTML report there')
    .option('--static <directory>', 'write the viewer’s pages there as plain files, with every trajectory')
    .option('--recompute', 'derive evaluations and report files again and compare: exit 2 if one differs')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples(
        'longhaul report demo-2026-11-20-a',
        'longhaul report demo-2026-11-20-a --html report.html',
        'longhaul report demo-2026-11-20-a --static ./pages',
        'longhaul report demo-2026-11-20-a --recompute',
      ),
    )
    .action((run: string, options: ReportOptions) => {
      requireOneTask(options)
      if (options.static !== undefined) return writePages(run, options.static, options, context)
      return options.recompute === true ? recompute(run, options, context) : show(run, options, context)
    })
}

interface ReportOptions {
  html?: string
  static?: string
  recompute?: true
  json?: true
}

/** Each is a task of its own: one of them would be ignored, and a recomputation that was not made would look like a passed one. */
function requireOneTask(options: ReportOptions): void {
  const given = (['html', 'static', 'recompute'] as const).filter((name) => options[name] !== undefined)
  if (given.length < 2) return
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected one of --html, --static and --recompute, got ${given.map((name) => `--${name}`).join(' and ')}: run the command once for each`,
  })
}

async function show(run: string, { html, json }: ReportOptions, { console }: CommandContext): Promise<void> {
  await requireWritable({ files: { '--html': html } })
  const store = await openStore()
  const grading = html === undefined ? await readGrading(store, run) : null
  if (grading !== null) {
    const context = await readGradingContext(store, grading)
    if (json === true) console.record({ ...grading, ...context })
    else console.out(renderGrading(grading, context))
    return
  }
  const data = await reportOf(store, run)
  if (html !== undefined) await writeResult(html, renderHtmlReport(data))
  if (json === true) {
    console.record(toJsonReport(data))
    return
  }
  const more = MORE_TABLES.map((make) => make(data)).filter(({ rows }) => rows.length > 0)
  console.out([renderTextReport(data).trimEnd(), ...more.map(renderTable)].join('\n\n'))
  const stored = html ?? (await newestReport(store, run))?.htmlPath
  if (stored !== undefined) console.out(`HTML report  ${stored}`)
}

async function writePages(
  run: string,
  directory: string,
  { json }: ReportOptions,
  { console }: CommandContext,
): Promise<void> {
  await requireWritable({ directories: { '--static': directory } })
  const store = await openStore()
  await requireKnownRun(store, run)
  // Loaded here: few commands need the pages.
  const { loadAssets } = await import('../../viewer/assets.ts')
  const { writeStatic } = await import('../../viewer/write-static.ts')
  const files = await writeStatic({ store, assets: await loadAssets(), run, directory })
  const page = resolve(directory, 'index.html')
  if (json === true) console.record({ event: 'done', run, page, files })
  else console.out(`${page}  (${files} files; opens without a server)`)
}

async function recompute(run: string, { json }: ReportOptions, { console, exit }: CommandContext): Promise<void> {
  const store = await openStore()
  // Fails with a clear message if there is no such run.
  await reportOf(store, run)
  const files = await recomputeReport(store, run)
  if (files.length === 0) {
    throw new LonghaulError({
      code: 'Config.NotFound',
      message: `Expected a file to derive again, but no evaluation of ${run} has ended, and it has no report`,
    })
  }
  const differing = files.filter(({ state }) => state === 'differs').length
  if (json === true) console.record({ run, files, differing })
  else {
    const verdict = `${differing} of ${files.length} files differ from what the records say now`
    console.out(
      [
        ...files.map(({ key, state }) => `${state.padEnd(7)}  ${key}`),
        differing === 0 ? `all ${files.length} files follow from the records` : verdict,
      ].join('\n'),
    )
  }
  if (differing > 0) exit(EXIT.infra)
}
