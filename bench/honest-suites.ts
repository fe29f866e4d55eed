/**
 * Projects' own suites under the audit of rewards, with nothing repaired and nothing changed: whatever it accuses, it accuses wrongly.
 *
 *   npm run bench:honest-suites -- --project NAME=DIRECTORY… --python FILE [--without PATTERN] [--every N] [--json]
 *     [--out bench/results/honest-suites.json]
 *
 * DIRECTORY holds the source distribution of a project whose tests lie below `tests`, FILE is a Python that has pytest and what the
 * tests need. A project with `tests/runtests.py`, as Django, is started by that, and `--every` takes each Nth of its test files. `--without`
 * leaves out test files whose path matches the pattern, such as those that need a network. Each test file is audited as a task whose listed
 * tests are all of its tests that pass: the audit then turns assertions of all of them where they stand, and of up to 24 in copies. Needs
 * root, because the audit gives it up. Exit 2 if nothing was audited.
 */
import { isUtf8 } from 'node:buffer'
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join, relative } from 'node:path'
import { type AuditAnswer, runAudit } from '../test/support/audit/run-audit.ts'
import { benchArguments, refuseArguments } from './support/arguments.ts'
import { conclude, endWith2OnError } from './support/conclude.ts'
import { versions } from './support/versions.ts'

interface Project {
  name: string
  directory: string
}

interface Row {
  project: string
  testFiles: number
  /** Tests that pass without an audit, parameters counted. */
  tests: number
  /** Test files on which the audit agrees. */
  agreed: number
  accused: { file: string; test: string; why: string }[]
}

interface Suite {
  runner: 'pytest' | 'django'
  testFile: RegExp
  command: (testFiles: readonly string[]) => string[]
  /** In what the command prints; the first group is the test's id. */
  passed: RegExp
  /** Of a test by its id. */
  fileOf: (id: string) => string
  /** What the audit of a test file is told about the runner. */
  spec: (file: string) => Record<string, unknown>
}

/** Of one test file: an audit may take several times as long as its tests. */
const AUDIT_MS = 600_000
const SUITE_MS = 1_800_000

const PYTEST_OPTIONS = ['-q', '-rA', '--tb=no', '-p', 'no:cacheprovider', '--continue-on-collection-errors']
const PYTEST: Suite = {
  runner: 'pytest',
  testFile: /^tests\/(?:.*\/)?test_[^/]*\.py$/,
  command: (testFiles) => ['-m', 'pytest', ...PYTEST_OPTIONS, ...testFiles],
  passed: /^PASSED (\S.*)$/gm,
  fileOf: (id) => id.split('::')[0] ?? '',
  spec: () => ({}),
}
const DJANGO_SETTINGS = ['--verbosity', '2', '--settings=test_sqlite', '--parallel', '1']
const DJANGO: Suite = {
  runner: 'django',
  testFile: /^tests\/(?:.*\/)?(?:tests|test_[^/]*)\.py$/,
  command: (testFiles) => ['tests/runtests.py', ...DJANGO_SETTINGS, ...testFiles.map(labelOf)],
  passed: /^(\w+ \([\w.]+\))(?:\n[^\n]*)? \.\.\. ok$/gm,
  // `test_x (app.tests.Case.test_x)`, before Python 3.11 `test_x (app.tests.Case)`.
  fileOf: (id) => {
    const [test = '', place = ''] = id.slice(0, -1).split(' (')
    const words = place.split('.')
    if (words.at(-1) === test) words.pop()
    return `tests/${words.slice(0, -1).join('/')}.py`
  },
  spec: (file) => ({ labels: [labelOf(file)], arguments: DJANGO_SETTINGS }),
}

endWith2OnError()
const { values } = benchArguments({
  options: {
    project: { type: 'string', multiple: true, default: [] },
    python: { type: 'string', default: '' },
    without: { type: 'string' },
    every: { type: 'string', default: '1' },
    json: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
})
const { python } = values
const projects = values.project.map((text): Project => {
  const at = text.indexOf('=')
  if (at < 1) refuseArguments(`Expected --project of NAME=DIRECTORY, got ${text}`, 2)
  return { name: text.slice(0, at), directory: text.slice(at + 1) }
})
if (projects.length === 0 || python === '') refuseArguments('Expected at least one --project, and --python', 2)
const without = values.without === undefined ? null : new RegExp(values.without)
const every = Number(values.every)
if (!Number.isInteger(every) || every < 1) refuseArguments(`Expected --every of 1 or more, got ${values.every}`, 2)

const rows: Row[] = []
for (const project of projects) {
  const row = await measure(project)
  rows.push(row)
  console.error(
    `${row.project}: ${row.tests} tests, ${row.agreed} of ${row.testFiles} files agreed, ${row.accused.length} accusations`,
  )
}
const { node, cores, kernel, provenance } = versions()
const result = { bench: 'honest-suites', date: new Date().toISOString(), node, cores, kernel, provenance, rows }
const text = `${JSON.stringify(result, null, 2)}\n`
if (values.out !== undefined) await writeFile(values.out, text)
if (values.json) process.stdout.write(text)
const tests = rows.reduce((sum, row) => sum + row.tests, 0)
process.exitCode = conclude({ compared: { projects: rows.length, tests }, violations: 0 })

async function measure({ name, directory }: Project): Promise<Row> {
  const files = await filesBelow(directory)
  const suite = files.includes('tests/runtests.py') ? DJANGO : PYTEST
  const testFiles = files
    .filter((file) => suite.testFile.test(file) && without?.test(file) !== true)
    .toSorted()
    .filter((_, at) => suite === PYTEST || at % every === 0)
  const passing = await passingTests({ suite, directory, files, testFiles })
  const row: Row = { project: name, testFiles: 0, tests: 0, agreed: 0, accused: [] }
  const texts: Record<string, string> = {}
  const binary: string[] = []
  for (const file of files) {
    const bytes = await readFile(join(directory, file))
    if (isUtf8(bytes)) texts[placeOf(file)] = bytes.toString()
    else binary.push(file)
  }
  for (const [file, focus] of passing) {
    const { [file]: hidden = '', ...pristine } = texts
    const answer = await runAudit({
      python,
      runner: suite.runner,
      pristine,
      patch: { 'note.txt': 'changed\n' },
      hidden: { [file]: hidden },
      prepare: (repository) => copyProject({ directory, files: binary, repository }),
      spec: { timeout_s: AUDIT_MS / 1000, modules: [file], focus, ...suite.spec(file) },
      endAfterMs: AUDIT_MS + 60_000,
    })
    row.testFiles += 1
    row.tests += focus.length
    const accused = accusationsOf(file, answer, new Set(focus))
    if (accused.length === 0) row.agreed += 1
    row.accused.push(...accused)
  }
  return row
}

async function copyProject(input: { directory: string; files: readonly string[]; repository: string }): Promise<void> {
  for (const file of input.files) {
    const to = join(input.repository, placeOf(file))
    await mkdir(dirname(to), { recursive: true })
    await cp(join(input.directory, file), to)
  }
}

/** As `runtests.py` names a test file. */
function labelOf(file: string): string {
  return file.replaceAll(/^tests\/|\.py$/g, '').replaceAll('/', '.')
}

/** Where the tests import the package from. */
function placeOf(file: string): string {
  return file.replace(/^src\//, '')
}

/** Without the history and what tools left. */
async function filesBelow(directory: string): Promise<string[]> {
  const found = await readdir(directory, { recursive: true, withFileTypes: true })
  return found
    .filter((entry) => entry.isFile())
    .map((entry) => relative(directory, join(entry.parentPath, entry.name)))
    .filter((file) => !/(?:^|\/)(?:\.git|__pycache__|\.pytest_cache|[^/]*\.egg-info)\/|\.pyc$/.test(file))
}

/** By file, the tests that pass; a file without any is left out. */
async function passingTests(input: {
  suite: Suite
  directory: string
  files: readonly string[]
  testFiles: readonly string[]
}): Promise<Map<string, string[]>> {
  const { suite, directory, files, testFiles } = input
  const folder = await mkdtemp(join(tmpdir(), 'honest-suites-'))
  try {
    await copyProject({ directory, files, repository: folder })
    const env = { ...process.env, PYTHONPATH: folder, PYTHONDONTWRITEBYTECODE: '1' }
    const printed = await new Promise<string>((resolve) => {
      const options = { cwd: folder, env, maxBuffer: 1 << 28, timeout: SUITE_MS }
      // Exit 1 where some tests fail, as in places without a network. Runners of unittest print results as errors.
      execFile(python, suite.command(testFiles), options, (_error, stdout, stderr) => resolve(stdout + stderr))
    })
    const passing = new Map<string, string[]>()
    for (const [, id = ''] of printed.matchAll(suite.passed)) {
      const file = suite.fileOf(id)
      if (!testFiles.includes(file)) continue
      passing.set(file, [...(passing.get(file) ?? []), id])
    }
    return passing
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** A canary that did not run says nothing beside the reason why the audit ended. */
function accusationsOf(file: string, answer: AuditAnswer, focus: ReadonlySet<string>): Row['accused'] {
  const of = (test: string, why: string) => ({ file: basename(file), test, why: why.slice(0, 200) })
  if (answer.ended !== 'complete') return [of('*', `${answer.ended}: ${answer.detail ?? 'no reason'}`)]
  const canaries = answer.canaries.filter(({ ok }) => !ok)
  const tests = answer.tests.filter(({ id, outcome }) => focus.has(id) && outcome !== 'passed')
  return [
    ...canaries.map((canary) =>
      of(canary.of ?? '*', `${canary.must} ${canary.outcome}: ${canary.detail ?? 'no reason'}`),
    ),
    ...answer.changed.map((name) => of('*', `changed: ${name}`)),
    ...tests.map(({ id, outcome }) => of(id, outcome)),
  ]
}
