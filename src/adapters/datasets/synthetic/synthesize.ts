import type { SweRebenchRow, SyntheticSource } from '../../../contracts/tasks.types.ts'
import { composeTask, type ComposedTask } from './compose.ts'
import { commitFiles, type RepositoryFile, blobId, repositoryTar } from './repository-tar.ts'
import { expectedLiteral, functionName, testArguments, type FunctionSpec } from './functions.ts'
import { sha256Hex } from '../../../platform/hash.ts'

export interface SynthesizedTask {
  row: SweRebenchRow
  /** Working tree and `.git` for the root of the repository; deterministic. */
  repoTar(): Promise<Uint8Array>
  /** What the generator knows, for scripted solvers and tests. */
  composed: ComposedTask
}

/** `-B` and no cache: the grader needs no traces of its own run. Long paths are never cut, so ids stay whole. */
const TEST_COMMAND = 'python3 -B -m pytest -rA -p no:cacheprovider'

const CREATED_AT = '2025-01-01T00:00:00'

/** One task of the family, as a row of the SWE-rebench schema. Same source, same row, same repository. */
export function synthesizeTask(source: SyntheticSource): SynthesizedTask {
  const composed = composeTask(source)
  const files = repositoryFiles(composed)
  const tree = commitFiles(files, `Add ${composed.packageName}`)
  const { target, targetLine, packageName } = composed
  const home = composed.modules.find(({ path }) => path === targetLine.path)
  const tests = hiddenTests(composed, source)
  const taskId = `synthetic__${source.split}-${String(source.index).padStart(6, '0')}`

  const row: SweRebenchRow = {
    instance_id: taskId,
    repo: `longhaul/${packageName}`,
    base_commit: tree.commit,
    environment_setup_commit: tree.commit,
    patch: lineChangeDiff({
      path: targetLine.path,
      before: home?.lines ?? [],
      line: targetLine.wrongLine,
      text: targetLine.rightText,
    }),
    test_patch: newFileDiff(tests),
    problem_statement: composed.statement,
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
    // The commit names the content: another seed with the same index is another image.
    image_name: `longhaul/synthetic:${taskId}-${tree.commit.slice(0, 12)}`,
    meta: { synthetic: source, level: composed.level, kind: target.kind },
  }
  return { row, composed, repoTar: () => repositoryTar(files, tree) }
}

interface SuiteRequest {
  seed: number
  split: 'train' | 'eval'
  count: number
  offset: number
}

/** `count` tasks from index `offset` on. */
export function synthesizeSuite({ seed, split, count, offset }: SuiteRequest): SynthesizedTask[] {
  return Array.from({ length: count }, (_, position) =>
    synthesizeTask({ family: 'one-wrong-line', seed, split, index: offset + position }),
  )
}

function repositoryFiles({ packageName, modules }: ComposedTask): RepositoryFile[] {
  return [
    { path: '.gitignore', content: '__pycache__/\n' },
    { path: `${packageName}/__init__.py`, content: '' },
    ...modules.map(({ path, lines }) => ({ path, content: joinLines(lines) })),
  ]
}

const CONTEXT_LINES = 3

interface LineChange {
  path: string
  before: string[]
  /** 1-based. */
  line: number
  text: string
}

/** The diff that Git prints when one line of a file changes. Files end with a newline. */
function lineChangeDiff({ path, before, line, text }: LineChange): string {
  const after = before.with(line - 1, text)
  const first = Math.max(1, line - CONTEXT_LINES)
  const last = Math.min(before.length, line + CONTEXT_LINES)
  const range = `${first},${last - first + 1}`
  const context = (from: number, to: number): string[] => before.slice(from - 1, to).map((kept) => ` ${kept}`)
  return joinLines([
    `diff --git a/${path} b/${path}`,
    `index ${shortId(before)}..${shortId(after)} 100644`,
    `--- a/${path}`,
    `+++ b/${path}`,
    `@@ -${range} +${range} @@${sectionHeading(before.slice(0, first - 1))}`,
    ...context(first, line - 1),
    `-${before[line - 1] ?? ''}`,
    `+${text}`,
    ...context(line + 1, last),
  ])
}

/** Git repeats the last line above the hunk that starts like a definition. */
function sectionHeading(above: string[]): string {
  const heading = above.findLast((line) => /^[A-Za-z_$]/.test(line))
  return heading === undefined ? '' : ` ${heading.slice(0, 80).trimEnd()}`
}

/** The diff that adds a file. */
export function newFileDiff({ path, lines }: { path: string; lines: string[] }): string {
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

/** Lines as a text file. */
function joinLines(lines: string[]): string {
  return lines.map((line) => `${line}\n`).join('')
}

function shortId(lines: string[]): string {
  return blobId(joinLines(lines)).slice(0, 7)
}

interface HiddenTests {
  path: string
  lines: string[]
  failToPass: string[]
  passToPass: string[]
}

/**
 * One file with a test for each function: one import of the package and one collection, so that grading stays cheap. Names follow from
 * the task's seed by a hash and from nothing in the repository: no rule that a policy learns from the repository predicts them, so no
 * file of the agent's can take their place.
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
