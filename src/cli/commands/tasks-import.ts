import type { Command } from 'commander'
import { type PinProgress, importSuite } from '../../adapters/datasets/import-suite.ts'
import { readEvidence, readIds } from '../../adapters/datasets/published-suite.ts'
import type { ReadProgress } from '../../adapters/datasets/read-source.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { ImportSource, SuiteFilter } from '../../contracts/suites.types.ts'
import { paperFilters, readFilter } from '../../domain/gates/filter-words.ts'
import { importTables, formatImport } from '../../report/suite-table.ts'
import { renderTable } from '../../report/text-report.ts'
import type { CommandContext } from '../command-context.ts'
import { EXIT } from '../output/exit-codes.ts'
import { collect, examples, hubUrlOf, hubUrlOption, jsonOption, tokenVariableOption } from '../arguments/options.ts'
import { whileReporting } from '../output/live-lines.ts'
import { requireWritableSuite, writeSuite } from '../output/write-suite.ts'

interface ImportOptions {
  revision?: string
  split?: string
  hubUrl?: string
  tokenVariable: string
  filter?: string[]
  paperFilters?: true
  ids?: string
  evidence?: string
  skipRefused?: true
  pinFiles?: true
  output: string
  json?: true
}

export function addImport(tasks: Command, context: CommandContext): void {
  tasks
    .command('import')
    .argument('<source>', 'a .json, .jsonl or .parquet file, or a data set of the hub such as nebius/SWE-rebench')
    .description('check every row of a published data set, filter, and write a suite that recipes name as kind: rows')
    .requiredOption(
      '--output <file>',
      'JSONL of the kept rows as published; its record is written to <file>.suite.json',
    )
    .option('--revision <commit>', 'commit of a data set of the hub; branches and tags move and are refused')
    .option('--split <label>', 'split of a data set of the hub, as published: test, filtered, 2025_05')
    .addOption(hubUrlOption())
    .addOption(tokenVariableOption())
    .option(
      '--filter <filter>',
      'repeatable, applied in the order given: created>=DATE, created<DATE, files<=N, lines<=N, llm-score!=X, hidden-names, deterministic>=N',
      collect,
    )
    .option(
      '--paper-filters',
      'the four of arXiv 2508.03501 after those: hidden-names files<=7 lines<=499 llm-score!=3 deterministic>=50',
    )
    .option('--ids <file>', 'only these instance ids, one a line, before all other filters')
    .option(
      '--evidence <file>',
      'evidence for the filters hidden-names and deterministic; longhaul tasks gate --evidence writes it',
    )
    .option('--skip-refused', 'write the suite although rows were refused (default: write nothing, exit 1)')
    .option(
      '--pin-files',
      'fetch the files that rows name by address, and write their SHA-256 into the rows: gradings then refuse other bytes',
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples(
        'longhaul tasks import verified.parquet --output verified.jsonl',
        'longhaul tasks import nebius/SWE-rebench-leaderboard --revision ab4805dae879e4f4ef81bf9e5cf5afa849f7c55b --split 2025_05 --output may.jsonl',
        "longhaul tasks import rows.jsonl --filter 'created>=2025-03-01' --filter 'files<=7' --output recent.jsonl",
      ),
    )
    .action((source: string, options: ImportOptions) => runImport(source, options, context))
}

async function runImport(argument: string, options: ImportOptions, { console, exit }: CommandContext): Promise<void> {
  const source = readSourceArgument(argument, options)
  const filters: SuiteFilter[] = [
    ...(options.ids === undefined ? [] : [{ kind: 'ids' as const, ids: await readIds(options.ids) }]),
    ...(options.filter ?? []).map(readFilter),
    ...(options.paperFilters === true ? paperFilters() : []),
  ]
  const evidence = options.evidence === undefined ? new Map() : await readEvidence(options.evidence)
  await requireWritableSuite(options.output)
  const hubUrl = hubUrlOf(options)
  let progress: ReadProgress | null = null
  let pinning: PinProgress | null = null
  const { suite, kept, classes, unknownIds } = await whileReporting(
    { console, what: () => (pinning === null ? formatReading(progress) : formatPinning(pinning)) },
    ({ changed }) =>
      importSuite({
        source,
        filters,
        evidence,
        hubUrl,
        token: { variable: options.tokenVariable, value: process.env[options.tokenVariable] || null },
        onProgress: (next) => {
          progress = next
          changed()
        },
        ...(options.pinFiles === true
          ? {
              pinFiles: {
                signal: new AbortController().signal,
                onProgress: (next) => {
                  pinning = next
                  changed()
                },
              },
            }
          : {}),
      }),
  )
  // Reported, since a misspelt id would silently shrink the suite.
  if (unknownIds.length > 0) {
    console.err(`--ids names ${unknownIds.length} without a row that can be graded, such as ${unknownIds[0] ?? ''}`)
  }
  const isWritten = suite.counts.kept > 0 && (suite.refused.length === 0 || options.skipRefused === true)
  if (isWritten) {
    await writeSuite({ output: options.output, suite, rows: kept.map(({ row }) => row) })
  }
  if (options.json === true) console.record({ written: isWritten ? options.output : null, ...suite, classes })
  else {
    const tables = importTables(suite, classes).map(renderTable)
    console.out([...tables, formatImport(suite, isWritten ? options.output : null)].join('\n\n'))
  }
  if (!isWritten) exit(EXIT.usage)
}

function formatReading(progress: ReadProgress | null): string {
  if (progress === null) return 'looking for the files of the source'
  const { files, of, bytes, rows } = progress
  return `reading the source: ${files} of ${of} files, ${(bytes / 1e6).toFixed(1)} MB, ${rows} rows`
}

function formatPinning({ rows, of }: PinProgress): string {
  return `fetching the files that rows name: ${rows} of ${of} rows`
}

/** A name with the ending of a file is a file; any other is a data set, which must be pinned. */
function readSourceArgument(argument: string, { revision, split }: ImportOptions): ImportSource {
  if (/\.(?:jsonl?|ndjson|parquet)$/.test(argument)) {
    if (revision === undefined && split === undefined) return { kind: 'file', path: argument }
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: 'Expected --revision and --split only with a data set of the hub: a file is one split already',
      details: { file: argument },
    })
  }
  if (!/^[\w.-]+\/[\w.-]+$/.test(argument) || revision === undefined || split === undefined) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: 'Expected a .json, .jsonl or .parquet file, or OWNER/NAME of the hub with --revision and --split',
      details: { source: argument },
    })
  }
  return { kind: 'hub', dataset: argument, revision, split }
}
