import { type Command, Option } from 'commander'
import { LonghaulError } from '../../contracts/errors.ts'
import { isDirectory } from '../../platform/files.ts'
import { quoteAddress } from '../../platform/quote-address.ts'
import type { BuiltTaskImage, FailedTaskImage } from '../../contracts/task-images.types.ts'
import { imageTable, formatImages } from '../../report/suite-table.ts'
import { renderTable } from '../../report/text-report.ts'
import type { CommandContext } from '../command-context.ts'
import { untilInterrupted } from '../output/console.ts'
import { EXIT } from '../output/exit-codes.ts'
import { whileReporting } from '../output/live-lines.ts'
import { collect, examples, integer, jsonOption } from '../arguments/options.ts'

interface BuildOptions {
  repos?: string
  only?: string[]
  jobs: number
  base?: string
  network?: 'bridge' | 'host'
  json?: true
}

export function addImages(program: Command, context: CommandContext): void {
  const images = program.command('images').description('make the images that tasks run in')
  images
    .command('build')
    .argument('<suite>', 'a .jsonl or .json file of rows')
    .description(
      'build the image of every task that has none, from its repository’s history and its harness’s environment data',
    )
    .option(
      '--repos <directory|address>',
      'mirrors or bundles named owner__name or owner/name (also .git, .bundle), or the beginning of addresses (default: https://github.com)',
    )
    .option('--only <task>', 'only this task, repeatable; several at once with commas', collect)
    .option('--jobs <n>', 'tasks at a time', integer({ name: '--jobs', min: 1 }), 1)
    .option('--base <image>', 'build on this image, which has bash, git and tar, instead of Longhaul’s own Debian')
    .addOption(
      new Option(
        '--network <kind>',
        'of the building containers (default: the engine’s bridge, else the host’s)',
      ).choices(['bridge', 'host']),
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples(
        'longhaul images build verified.jsonl --repos mirrors',
        'longhaul images build verified.jsonl --repos mirrors --only pallets__flask-5014',
        'longhaul tasks gate verified.jsonl',
      ),
    )
    .addHelpText(
      'after',
      'Exit: 0 every task has an image; 2 some could not be built, each with its stage and what to do.',
    )
    .action((suite: string, options: BuildOptions) => build(suite, options, context))
}

async function build(suite: string, options: BuildOptions, { console, exit }: CommandContext): Promise<void> {
  const tasks = await readSuite(suite, options.only ?? [])
  await requireRepositories(options.repos)
  const { requireNamedDirectories } = await import('../../adapters/task-images/host-pythons.ts')
  requireNamedDirectories()
  const { buildTaskImages } = await import('../../adapters/task-images/build-task-images.ts')
  const { PUBLIC_REPOSITORIES } = await import('../../adapters/task-images/repository.ts')
  const { connectEngine } = await import('../../adapters/docker/engine/engine.ts')
  const { adoptLocalStack } = await import('../local-stack.ts')
  const { makeCacheDirectory, stackPaths } = await import('../../stack/paths.ts')
  await adoptLocalStack()
  await makeCacheDirectory(stackPaths().cacheDir)
  const engine = await connectEngine()
  const state: Building = { ended: [], total: tasks.length, openSinceMs: new Map(), last: '' }
  const results = await untilInterrupted((signal) =>
    whileReporting({ console, what: () => formatBuilding(state, Date.now()) }, ({ note, changed }) =>
      buildTaskImages({
        engine,
        tasks,
        repositories: options.repos ?? PUBLIC_REPOSITORIES,
        base: options.base ?? null,
        network: options.network ?? null,
        jobs: options.jobs,
        cacheDir: stackPaths().cacheDir,
        log: (line) => {
          state.last = line
          note(line)
        },
        onStart: (taskId) => void state.openSinceMs.set(taskId, Date.now()),
        onResult(result) {
          state.openSinceMs.delete(result.taskId)
          state.ended.push(result)
          if (options.json === true) console.record({ event: 'image', ...result })
          // The messages of failures stand once, below the table; their stages have been logged.
          else if (result.did !== 'failed') note(formatBuilt(result))
          changed()
        },
        signal,
      }),
    ),
  )
  if (options.json === true) console.record({ event: 'done', ...counts(results) })
  else console.out([renderTable(imageTable(results)), formatImages(results)].join('\n\n'))
  if (results.some(({ did }) => did === 'failed')) exit(EXIT.infra)
}

/** @throws LonghaulError `Config.Invalid` for a missing directory, which would make each task fail separately */
async function requireRepositories(repos: string | undefined): Promise<void> {
  if (repos === undefined) return
  const { areAddresses } = await import('../../adapters/task-images/repository.ts')
  if (areAddresses(repos) || (await isDirectory(repos))) return
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected --repos to be a directory or an address such as https://HOST, got ${quoteAddress(repos)}`,
  })
}

interface Building {
  ended: (BuiltTaskImage | FailedTaskImage)[]
  total: number
  openSinceMs: Map<string, number>
  /** The last logged line. */
  last: string
}

function formatBuilding({ ended, total, openSinceMs, last }: Building, nowMs: number): string {
  const failed = ended.filter(({ did }) => did === 'failed').length
  const [oldest] = [...openSinceMs].toSorted(([, a], [, b]) => a - b)
  const open =
    oldest === undefined
      ? ''
      : ` · at work on ${oldest[0]} for ${Math.round((nowMs - oldest[1]) / 1000)} s${openSinceMs.size > 1 ? ` and ${openSinceMs.size - 1} more` : ''}`
  return `images ${ended.length} of ${total}${failed === 0 ? '' : `, ${failed} failed`}${open}${last === '' ? '' : ` · last: ${last}`}`
}

async function readSuite(path: string, only: readonly string[]) {
  const { readTaskRows } = await import('../../adapters/datasets/read-source.ts')
  const { normalizeRow } = await import('../../adapters/datasets/normalize-row.ts')
  const { requireDistinct } = await import('../../adapters/datasets/load-tasks.ts')
  const all = (await readTaskRows(path)).map(({ row, label }) => ({ row, label, task: normalizeRow(row, { label }) }))
  requireDistinct(path, all)
  const wanted = new Set(only.flatMap((text) => text.split(',')).filter((id) => id !== ''))
  if (only.length > 0 && wanted.size === 0) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: 'Expected --only to name a task of the suite, got none',
    })
  }
  const unknown = [...wanted].filter((id) => all.every(({ task }) => task.taskId !== id))
  if (unknown.length > 0) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected --only to name tasks of the suite, got ${unknown.join(', ')}`,
      details: { suite: path },
    })
  }
  return wanted.size === 0 ? all : all.filter(({ task }) => wanted.has(task.taskId))
}

function formatBuilt({ taskId, did, bytes, seconds }: BuiltTaskImage): string {
  return `${taskId}: ${did}, ${Math.round(bytes / 1e6)} MB, ${seconds.toFixed(1)} s`
}

function counts(results: readonly (BuiltTaskImage | FailedTaskImage)[]): Record<string, number> {
  const of = (did: string): number => results.filter((result) => result.did === did).length
  return { built: of('built'), found: of('found'), present: of('present'), failed: of('failed') }
}
