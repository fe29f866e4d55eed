import { execFileSync, spawn } from 'node:child_process'
import { cpus, constants, release, setPriority } from 'node:os'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { codeHash } from '../measured-code.ts'
import { commit } from '../versions.ts'
import { explains } from './explained-survivors.ts'
import { groupFiles, MUTATED_FOLDERS, type MutationGroup, TESTS_VARIABLE } from './groups.ts'

export interface MutateTypeScriptInput {
  root: string
  /** Files or folders; empty means all. */
  paths: readonly string[]
  /** Number of concurrent mutants. */
  concurrency: number
  /** File for the results of whole folders; null: in `bench/results`. */
  json: string | null
  /**
   * Tests only the stored survivors of the folders again, after tests were added for the same code.
   * @default false
   */
  survivorsOnly?: boolean
}

const LEAST_SCORE = 90
const PAGE = 'docs/mutation-testing.md'
const RESULT = 'bench/results/mutation-typescript.json'

/** The parts of Stryker's report that are read. */
interface Report {
  files: Record<string, { source: string; mutants: Mutant[] }>
}

interface Mutant {
  mutatorName: string
  replacement?: string
  status: 'Killed' | 'Timeout' | 'Survived' | 'NoCoverage' | 'RuntimeError' | 'CompileError' | 'Ignored'
  location: { start: Position; end: Position }
}

interface Position {
  line: number
  column: number
}

interface Survivor {
  file: string
  line: number
  column: number
  end: Position
  /** Whether any test reaches the place. */
  isReached: boolean
  mutator: string
  original: string
  replacement: string
}

interface Counts {
  mutants: number
  killed: number
  /** The mutant made a loop endless, or a test several times slower. */
  timedOut: number
  survived: number
  notReached: number
  /** The mutant's module failed to load, so no test can detect or miss it. Not counted anywhere else. */
  invalid: number
  score: number
}

/** @returns the exit code: 0, 1 (a score is too low, or a survivor has no explanation) or 2 (nothing was measured) */
export async function mutateTypeScript(input: MutateTypeScriptInput): Promise<number> {
  const { root, paths } = input
  const json = input.json ?? join(root, RESULT)
  const folders = await (input.survivorsOnly === true ? mutateSurvivors(input, json) : mutateWhole(input))
  if (folders === null) return 2
  // A partly measured folder has no meaningful score.
  await keepResults(
    json,
    folders.filter(({ folder }) => isChosen(folder, paths)),
  )
  return judge(folders, await readFile(join(root, PAGE), 'utf8'))
}

/** Null if nothing was measured. */
async function mutateWhole(input: MutateTypeScriptInput): Promise<FolderResult[] | null> {
  const files = sourceFiles(input.root).filter((file) => isChosen(file, input.paths))
  const started = Date.now()
  const mutants = await runGroups(groupFiles(files), input)
  return mutants === null ? null : describe(mutants, { ...input, seconds: secondsSince(started) })
}

/** Null if nothing was measured. */
async function runGroups(
  groups: readonly MutationGroup[],
  input: MutateTypeScriptInput,
): Promise<Report['files'] | null> {
  if (groups.length === 0) {
    console.error(`Expected files below ${MUTATED_FOLDERS.join(', ')}, got ${input.paths.join(' ')}`)
    return null
  }
  const mutants: Report['files'] = {}
  for (const [index, group] of groups.entries()) {
    console.error(`mutate  ${group.folder}, part ${index + 1} of ${groups.length}: ${group.files.length} files`)
    // Two runs may be active concurrently.
    const report = await runStryker({ ...input, group, name: `${process.pid}-${index + 1}` })
    if (report === null) return null
    Object.assign(mutants, report.files)
  }
  return mutants
}

/**
 * The stored results of the folders, without the survivors that a test now detects. Mutants that were killed before count as killed,
 * because tests may have been added since; after a test was removed or loosened, the whole folder must be measured again.
 */
async function mutateSurvivors(input: MutateTypeScriptInput, json: string): Promise<FolderResult[] | null> {
  const { root, paths } = input
  const kept = (await readKept(json)).folders.filter(({ folder }) => isChosen(folder, paths))
  for (const { folder, codeHash: measured, survivors } of kept) {
    const isSameCode = measured === codeHash([folder])
    if (isSameCode && (await areInPlace(root, survivors))) continue
    const reason = isSameCode ? 'was measured before comments moved its lines' : 'is of other code'
    console.error(`The kept result of ${folder} ${reason}. Measure it whole: npm run mutate -- ts ${folder}`)
    return null
  }
  const survivors = kept.flatMap((folder) => folder.survivors)
  const groups = groupFiles([...new Set(survivors.map(({ file }) => file))])
  const started = Date.now()
  const mutants = await runGroups(
    groups.map((group) => ({
      ...group,
      // Stryker counts columns from 0 in a range, and from 1 in a report.
      mutate: survivors
        .filter(({ file }) => group.files.includes(file))
        .map(({ file, line, column, end }) => `${file}:${line}:${column - 1}-${end.line}:${end.column - 1}`),
    })),
    input,
  )
  if (mutants === null) return null
  const again = { date: new Date().toISOString(), commit: commit(), seconds: secondsSince(started) }
  const statuses = new Map(
    Object.entries(mutants).flatMap(([file, { source, mutants: ofFile }]) =>
      ofFile.map((mutant) => [identityOf(toSurvivor(file, source, mutant)), mutant.status] as const),
    ),
  )
  return kept.map((folder) => withoutKilled(folder, statuses, again))
}

/** Whether no survivor has moved: a reworded comment leaves the hash of the code as it is, but may move the lines below it. */
async function areInPlace(root: string, survivors: readonly Survivor[]): Promise<boolean> {
  const files = [...new Set(survivors.map(({ file }) => file))]
  const texts = await Promise.all(files.map((file) => readFile(join(root, file), 'utf8')))
  const sources = new Map(files.map((file, at) => [file, texts[at] ?? '']))
  return survivors.every((one) => isInPlace(sources.get(one.file) ?? '', one))
}

/** Whether the source has the survivor's original text at its place. */
export function isInPlace(
  source: string,
  { line, column, end, original }: Pick<Survivor, 'line' | 'column' | 'end' | 'original'>,
): boolean {
  return textBetween(source, { line, column }, end) === original
}

function withoutKilled(
  folder: FolderResult,
  statuses: ReadonlyMap<string, Mutant['status']>,
  again: NonNullable<FolderResult['again']>,
): FolderResult {
  const files = { ...folder.files }
  const counts = { ...folder.counts }
  const survivors = folder.survivors.filter((survivor) => {
    const status = statuses.get(identityOf(survivor))
    if (status !== 'Killed' && status !== 'Timeout') return true
    const ofFile = { ...(files[survivor.file] ?? counts) }
    files[survivor.file] = ofFile
    for (const one of [counts, ofFile]) {
      one[survivor.isReached ? 'survived' : 'notReached'] -= 1
      one[status === 'Killed' ? 'killed' : 'timedOut'] += 1
      one.score = scoreOf(one)
    }
    return false
  })
  return { ...folder, counts, files, survivors, again }
}

/** The same change at the same place. Two changes of a long text may be cut to one; they then share a result. */
function identityOf({ file, line, column, end, mutator, replacement }: Survivor): string {
  return [file, line, column, end.line, end.column, mutator, replacement].join('\0')
}

async function readKept(file: string): Promise<KeptResults> {
  return readFile(file, 'utf8').then(
    (text) => JSON.parse(text) as KeptResults,
    () => ({ folders: [] }),
  )
}

/** Each folder has its own result, with its commit and code hash. */
async function keepResults(file: string, measured: readonly FolderResult[]): Promise<void> {
  if (measured.length === 0) return
  const before = await readKept(file)
  const others = before.folders.filter(({ folder }) => !measured.some((one) => one.folder === folder))
  const folders = [...others, ...measured].toSorted((a, b) => (a.folder < b.folder ? -1 : 1))
  await mkdir(dirname(file), { recursive: true })
  await writeFile(file, `${JSON.stringify({ bench: 'mutation-typescript', folders }, null, 1)}\n`)
}

function sourceFiles(root: string): string[] {
  const listed = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', ...MUTATED_FOLDERS], {
    cwd: root,
    encoding: 'utf8',
  })
  return listed.split('\n').filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
}

function secondsSince(started: number): number {
  return Math.round((Date.now() - started) / 1000)
}

/** Without paths everything is chosen. */
function isChosen(name: string, paths: readonly string[]): boolean {
  return paths.length === 0 || paths.some((path) => isBelow(name, path))
}

function isBelow(file: string, path: string): boolean {
  const folder = path.replace(/^\.\//, '').replace(/\/$/, '')
  return file === folder || file.startsWith(`${folder}/`)
}

/** Null if Stryker failed; its output is printed above. */
async function runStryker({
  root,
  group,
  name,
  concurrency,
}: MutateTypeScriptInput & {
  group: MutationGroup & { mutate?: readonly string[] }
  name: string
}): Promise<Report | null> {
  const work = join(root, 'out', 'mutation')
  const reportFile = join(work, `${name}.report.json`)
  const configFile = join(work, `${name}.config.json`)
  const config = {
    plugins: [join(import.meta.dirname, 'in-process-runner.ts')],
    testRunner: 'in-process',
    // Modules that were loaded for one mutant stay in memory until the process ends.
    maxTestRunnerReuse: 400,
    coverageAnalysis: 'perTest',
    // Node strips types without checking them; a type error is no fault of a test.
    disableTypeChecks: false,
    mutate: group.mutate ?? group.files,
    ignorePatterns: ['**', '!package.json', '!src', '!src/**', '!test', '!test/support', '!test/support/**'],
    tempDirName: `.stryker-tmp/${name}`,
    reporters: ['json', 'progress-append-only'],
    jsonReporter: { fileName: reportFile },
    // Ten seconds more than the tests took, so that on a busy machine a slow mutant does not count as killed.
    timeoutMS: 10_000,
    concurrency,
    allowConsoleColors: false,
  }
  await mkdir(work, { recursive: true })
  await rm(reportFile, { force: true })
  await writeFile(configFile, JSON.stringify(config))
  const stryker = join(root, 'node_modules', '@stryker-mutator', 'core', 'bin', 'stryker.js')
  const child = spawn(process.execPath, [stryker, 'run', configFile], {
    cwd: root,
    stdio: ['ignore', 2, 2],
    env: { ...process.env, [TESTS_VARIABLE]: group.tests },
  })
  // Stryker uses every core that it gets until it ends.
  if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_BELOW_NORMAL)
  const code = await new Promise<number>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (status) => resolve(status ?? 2))
  })
  const text = await readFile(reportFile, 'utf8').catch(() => null)
  return code === 0 && text !== null ? (JSON.parse(text) as Report) : null
}

interface KeptResults {
  folders: FolderResult[]
}

type FolderResult = ReturnType<typeof describeFolder> & {
  /** When its survivors were last tested again. */
  again?: { date: string; commit: string; seconds: number }
}

function describe(files: Report['files'], input: MutateTypeScriptInput & { seconds: number }): FolderResult[] {
  const folders = MUTATED_FOLDERS.filter((folder) => Object.keys(files).some((file) => isBelow(file, folder)))
  return folders.map((folder) => describeFolder(folder, files, input))
}

function describeFolder(
  folder: string,
  files: Report['files'],
  { root, paths, concurrency, seconds }: MutateTypeScriptInput & { seconds: number },
) {
  const inFolder = Object.entries(files)
    .filter(([file]) => isBelow(file, folder))
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
  return {
    folder,
    command: ['npm run mutate -- ts', ...paths, `--concurrency ${concurrency}`].join(' '),
    date: new Date().toISOString(),
    commit: commit(),
    isDirty: execFileSync('git', ['status', '--porcelain', folder], { cwd: root }).length > 0,
    machine: { cores: cpus().length, kernel: release() },
    versions: { node: process.version, stryker: versionOf(root) },
    /** Of the whole run. */
    seconds,
    /** Hash of the mutated code without its comments: the score is valid only for this hash. */
    codeHash: codeHash([folder]),
    counts: count(inFolder.flatMap(([, { mutants }]) => mutants)),
    files: Object.fromEntries(inFolder.map(([file, { mutants }]) => [file, count(mutants)])),
    survivors: inFolder.flatMap(([file, { source, mutants }]) =>
      mutants
        .filter(isSurvivor)
        .map((one) => toSurvivor(file, source, one))
        .toSorted((a, b) => a.line - b.line || a.column - b.column),
    ),
  }
}

function count(mutants: readonly Mutant[]): Counts {
  const of = (...statuses: Mutant['status'][]): number =>
    mutants.filter(({ status }) => statuses.includes(status)).length
  const [killed, timedOut, survived, notReached] = [of('Killed'), of('Timeout'), of('Survived'), of('NoCoverage')]
  const judged = { mutants: killed + timedOut + survived + notReached, killed, timedOut, survived, notReached }
  return { ...judged, invalid: of('RuntimeError', 'CompileError'), score: scoreOf(judged) }
}

function scoreOf({ mutants, killed, timedOut }: Pick<Counts, 'mutants' | 'killed' | 'timedOut'>): number {
  return mutants === 0 ? 100 : Math.round((10_000 * (killed + timedOut)) / mutants) / 100
}

function isSurvivor({ status }: Mutant): boolean {
  return status === 'Survived' || status === 'NoCoverage'
}

function toSurvivor(file: string, source: string, { mutatorName, replacement, status, location }: Mutant): Survivor {
  const { start, end } = location
  return {
    file,
    line: start.line,
    column: start.column,
    end,
    isReached: status === 'Survived',
    mutator: mutatorName,
    original: textBetween(source, start, end),
    replacement: oneLine(replacement ?? ''),
  }
}

function textBetween(source: string, start: Position, end: Position): string {
  const lines = source.split('\n').slice(start.line - 1, end.line)
  const last = lines.length - 1
  const cut = lines.map((line, index) =>
    line.slice(index === 0 ? start.column - 1 : 0, index === last ? end.column - 1 : undefined),
  )
  return oneLine(cut.join(' '))
}

/** Short enough for a table, and unchanged if lines move. */
function oneLine(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim()
  return line.length <= 80 ? line : `${line.slice(0, 79)}…`
}

function versionOf(root: string): string {
  const require = createRequire(join(root, 'package.json'))
  return (require('@stryker-mutator/core/package.json') as { version: string }).version
}

function judge(folders: readonly FolderResult[], page: string): number {
  for (const { folder, counts } of folders) {
    const { mutants, killed, timedOut, survived, notReached, invalid, score } = counts
    console.log(
      `${folder.padEnd(14)} ${score.toFixed(1)} %  ${killed + timedOut} of ${mutants} mutants seen (${timedOut} by their time), ` +
        `${survived} survived, ${notReached} not reached, ${invalid} invalid`,
    )
  }
  const survivors = folders.flatMap((folder) => folder.survivors)
  const unexplained = survivors.filter((survivor) => !explains(page, survivor))
  for (const { file, line, column, original, replacement, isReached } of unexplained) {
    console.log(`${file}:${line}:${column}  ${original}  →  ${replacement}${isReached ? '' : '  (not reached)'}`)
  }
  console.log(`${survivors.length} survivors, ${unexplained.length} of them not explained in ${PAGE}`)
  const isGood = folders.every(({ counts }) => counts.score >= LEAST_SCORE)
  return isGood && unexplained.length === 0 ? 0 : 1
}
