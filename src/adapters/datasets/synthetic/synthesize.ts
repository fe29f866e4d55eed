import type { SyntheticFamily } from '../../../contracts/synthetic-families.ts'
import type { SweRebenchRow, SyntheticSource } from '../../../contracts/tasks.types.ts'
import { type ComposedTask, composeTask } from './compose.ts'
import { type FunctionSpec, expectedLiteral, functionName, testArguments } from './functions.ts'
import { type CalledFunction, type RenamedTask, composeRenamed } from './half-renamed.ts'
import { type RepositoryFile, blobId, commitFiles, repositoryTar } from './repository-tar.ts'
import { sha256Hex } from '../../../platform/hash.ts'

/** The generator's own description of a task, by family, for scripted solvers and tests. */
interface ComposedByFamily {
  'one-wrong-line': ComposedTask
  'half-renamed': RenamedTask
}

export interface SynthesizedTask<F extends SyntheticFamily = 'one-wrong-line'> {
  row: SweRebenchRow
  /** Working tree and `.git` for the root of the repository. Deterministic. */
  repoTar(): Promise<Uint8Array>
  composed: ComposedByFamily[F]
}

/** The part of a row that depends on the family. */
interface FamilyTask<C> {
  composed: C
  packageName: string
  statement: string
  files: RepositoryFile[]
  goldPatch: string
  tests: HiddenTests
  /** Level and kind, for tables. */
  facts: { level: number; kind: string }
  /** Part of the task's id. The first family has no prefix. */
  idPrefix: string
}

const FAMILIES: { [F in SyntheticFamily]: (source: SyntheticSource) => FamilyTask<ComposedByFamily[F]> } = {
  'one-wrong-line': oneWrongLine,
  'half-renamed': halfRenamed,
}

/** `-B` and no cache, so that the test run leaves no files behind for the grader. Long paths are never truncated, so ids stay
 *  complete. */
const TEST_COMMAND = 'python3 -B -m pytest -rA -p no:cacheprovider'

const CREATED_AT = '2025-01-01T00:00:00'

/** Generates one task of a family as a row of the SWE-rebench schema. The same source gives the same row and repository. */
export function synthesizeTask<F extends SyntheticFamily>(source: SyntheticSource & { family: F }): SynthesizedTask<F> {
  const { composed, packageName, statement, files, goldPatch, tests, facts, idPrefix } = FAMILIES[source.family](source)
  const tree = commitFiles(files, `Add ${packageName}`)
  const taskId = `synthetic__${idPrefix}${source.split}-${String(source.index).padStart(6, '0')}`

  const row: SweRebenchRow = {
    instance_id: taskId,
    repo: `longhaul/${packageName}`,
    base_commit: tree.commit,
    environment_setup_commit: tree.commit,
    patch: goldPatch,
    test_patch: newFileDiff(tests),
    problem_statement: statement,
    hints_text: '',
    created_at: CREATED_AT,
    version: '1.0',
    FAIL_TO_PASS: tests.failToPass,
    PASS_TO_PASS: tests.passToPass,
    FAIL_TO_FAIL: [],
    PASS_TO_FAIL: [],
    install_config: { python: '3.11', test_cmd: TEST_COMMAND, log_parser: 'parse_log_pytest' },
    requirements: '',
    environment: '',
    license_name: 'MIT',
    docker_image: null,
    // The commit identifies the content: another seed with the same index is another image.
    image_name: `longhaul/synthetic:${taskId}-${tree.commit.slice(0, 12)}`,
    meta: { synthetic: source, ...facts },
  }
  return { row, composed, repoTar: () => repositoryTar(files, tree) }
}

interface SuiteRequest<F extends SyntheticFamily> {
  family?: F
  seed: number
  split: 'train' | 'eval'
  count: number
  offset: number
}

/** Generates `count` tasks from index `offset` on. */
export function synthesizeSuite<F extends SyntheticFamily = 'one-wrong-line'>({
  family = 'one-wrong-line' as F,
  seed,
  split,
  count,
  offset,
}: SuiteRequest<F>): SynthesizedTask<F>[] {
  return Array.from({ length: count }, (_, position) =>
    synthesizeTask({ family, seed, split, index: offset + position }),
  )
}

function oneWrongLine(source: SyntheticSource): FamilyTask<ComposedTask> {
  const composed = composeTask(source)
  const { target, targetLine, packageName, statement, modules } = composed
  const before = modules.find(({ path }) => path === targetLine.path)?.lines ?? []
  const after = before.with(targetLine.wrongLine - 1, targetLine.rightText)
  return {
    composed,
    packageName,
    statement,
    files: repositoryFiles(packageName, modules, ['__pycache__/']),
    goldPatch: lineChangesDiff({ path: targetLine.path, before, after }),
    tests: hiddenTests(composed, source),
    facts: { level: composed.level, kind: target.kind },
    idPrefix: '',
  }
}

function halfRenamed(source: SyntheticSource): FamilyTask<RenamedTask> {
  const composed = composeRenamed(source)
  const { packageName, modules, statement, level, kind } = composed
  const visible = { path: `tests/test_${packageName}.py`, lines: renamedTests(composed, 'visible', (name) => name) }
  return {
    composed,
    packageName,
    statement,
    files: [
      ...repositoryFiles(packageName, modules, IGNORED),
      { path: visible.path, content: joinLines(visible.lines) },
    ],
    goldPatch: modules.map(({ path, lines, right }) => lineChangesDiff({ path, before: lines, after: right })).join(''),
    tests: hiddenRenamedTests(composed, source),
    facts: { level, kind },
    idPrefix: 'half-renamed-',
  }
}

/** Files that a run of the visible tests leaves behind. */
const IGNORED = ['__pycache__/', '.pytest_cache/']

function repositoryFiles(
  packageName: string,
  modules: { path: string; lines: string[] }[],
  ignored: string[],
): RepositoryFile[] {
  return [
    { path: '.gitignore', content: joinLines(ignored) },
    { path: `${packageName}/__init__.py`, content: '' },
    ...modules.map(({ path, lines }) => ({ path, content: joinLines(lines) })),
  ]
}

interface HiddenTests {
  path: string
  lines: string[]
  failToPass: string[]
  passToPass: string[]
}

/**
 * Writes one file with a test for each function, with one import of the package and one collection, so that grading stays cheap. Names
 * are a hash of the task's seed and independent of the repository, so that no rule learned from the repository predicts them, and no
 * file of the agent can take their place.
 */
function hiddenTests({ modules, target }: ComposedTask, source: SyntheticSource): HiddenTests {
  const path = `tests/test_${nameOf(source, 'file')}.py`
  const nodeId = (spec: FunctionSpec): string => `${path}::${testName(source, spec)}`
  const imports = modules
    .toSorted((left, right) => (left.name < right.name ? -1 : 1))
    .map(({ name, functions }) => `from ${name} import ${functions.map(functionName).toSorted().join(', ')}`)
  const functions = modules.flatMap((module) => module.functions)
  return {
    path,
    lines: [...imports, ...functions.flatMap((spec) => ['', '', ...testLines(source, spec)])],
    failToPass: [nodeId(target)],
    passToPass: functions.filter((spec) => spec !== target).map(nodeId),
  }
}

function testName(source: SyntheticSource, spec: FunctionSpec): string {
  return `test_${nameOf(source, functionName(spec))}`
}

function nameOf({ family, seed, split, index }: SyntheticSource, what: string): string {
  const material = ['hidden tests', family, seed, split, index, what].join('\n')
  return sha256Hex(material).slice(0, 16)
}

function testLines(source: SyntheticSource, spec: FunctionSpec): string[] {
  const name = functionName(spec)
  const checks = testArguments(spec.kind).map(
    (values) => `    assert ${name}(${values.join(', ')}) == ${expectedLiteral(spec, values)}`,
  )
  return [`def ${testName(source, spec)}():`, ...checks]
}

/** The same for the other family. Each test contains its own imports, so that a broken module only fails its own tests. */
function hiddenRenamedTests(composed: RenamedTask, source: SyntheticSource): HiddenTests {
  const path = `tests/test_${nameOf(source, 'file')}.py`
  const hidden = (name: string): string => nameOf(source, name)
  const ids = (isStale: boolean): string[] =>
    calledFunctions(composed)
      .filter(({ called }) => called.isStale === isStale)
      .map(({ called }) => `${path}::test_${hidden(called.name)}`)
  return { path, lines: renamedTests(composed, 'hidden', hidden), failToPass: ids(true), passToPass: ids(false) }
}

function calledFunctions({ modules }: RenamedTask): { module: string; called: CalledFunction }[] {
  return modules.flatMap(({ name, functions }) => functions.map((called) => ({ module: name, called })))
}

/** Visible tests check one call of each function, hidden tests check both. */
function renamedTests(composed: RenamedTask, which: 'visible' | 'hidden', named: (name: string) => string): string[] {
  const tests = calledFunctions(composed).map(({ module, called: { name, checks, constructs } }) => [
    `def test_${named(name)}():`,
    ...(constructs === null ? [] : [`    from ${composed.home.name} import ${constructs}`]),
    `    from ${module} import ${name}`,
    '',
    ...checks
      .slice(0, which === 'visible' ? 1 : checks.length)
      .map(({ call, result }) => `    assert ${call} == ${result}`),
  ])
  return tests.flatMap((lines, position) => (position === 0 ? lines : ['', '', ...lines]))
}

const CONTEXT_LINES = 3

export interface LineChanges {
  path: string
  before: readonly string[]
  /** The same number of lines as before. Lines only change, and no new line equals an adjacent old one. */
  after: readonly string[]
}

/** Returns the diff that Git prints when lines of a file change. Files end with a newline. Returns nothing without changes. */
function lineChangesDiff({ path, before, after }: LineChanges): string {
  const changed = before.flatMap((line, index) => (line === after[index] ? [] : [index + 1]))
  if (changed.length === 0) return ''
  return joinLines([
    `diff --git a/${path} b/${path}`,
    `index ${shortId(before)}..${shortId(after)} 100644`,
    `--- a/${path}`,
    `+++ b/${path}`,
    ...inHunks(changed).flatMap((lines) => hunk({ before, after, lines })),
  ])
}

/** Changes with overlapping context share a hunk. */
function inHunks(changed: number[]): number[][] {
  const hunks: number[][] = []
  for (const line of changed) {
    const last = hunks.at(-1)
    if (last !== undefined && line - (last.at(-1) ?? 0) <= 2 * CONTEXT_LINES + 1) last.push(line)
    else hunks.push([line])
  }
  return hunks
}

interface Hunk extends Omit<LineChanges, 'path'> {
  /** 1-based numbers of the changed lines. */
  lines: number[]
}

function hunk({ before, after, lines }: Hunk): string[] {
  const first = Math.max(1, (lines[0] ?? 1) - CONTEXT_LINES)
  const last = Math.min(before.length, (lines.at(-1) ?? 1) + CONTEXT_LINES)
  const body: string[] = []
  for (let line = first; line <= last; ) {
    let end = line
    while (lines.includes(end)) end += 1
    if (end === line) {
      body.push(` ${before[line - 1] ?? ''}`)
      line += 1
      continue
    }
    body.push(...before.slice(line - 1, end - 1).map((old) => `-${old}`))
    body.push(...after.slice(line - 1, end - 1).map((text) => `+${text}`))
    line = end
  }
  const range = `${first},${last - first + 1}`
  return [`@@ -${range} +${range} @@${sectionHeading(before.slice(0, first - 1))}`, ...body]
}

/** Git repeats the last line above the hunk that looks like a definition. */
function sectionHeading(above: readonly string[]): string {
  const heading = above.findLast((line) => /^[A-Za-z_$]/.test(line))
  return heading === undefined ? '' : ` ${heading.slice(0, 80).trimEnd()}`
}

/** Returns the diff that adds a file. */
export function newFileDiff({ path, lines }: { path: string; lines: readonly string[] }): string {
  return joinLines([
    `diff --git a/${path} b/${path}`,
    'new file mode 100644',
    `index 0000000..${shortId(lines)}`,
    '--- /dev/null',
    `+++ b/${path}`,
    `@@ -0,0 +1,${lines.length} @@`,
    ...lines.map((line) => `+${line}`),
  ])
}

/** Joins lines into the text of a file. */
function joinLines(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join('')
}

function shortId(lines: readonly string[]): string {
  return blobId(joinLines(lines)).slice(0, 7)
}
