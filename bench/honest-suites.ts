/**
 * Projects' own suites under the audit of rewards, with nothing repaired and nothing changed: whatever it accuses, it accuses wrongly.
 *
 *   npm run bench:honest-suites -- --project NAME=DIRECTORY… --python FILE [--without PATTERN] [--json]
 *     [--out bench/results/honest-suites.json]
 *
 * DIRECTORY holds the source distribution of a project whose tests lie below `tests`, FILE is a Python that has pytest and what the
 * tests need. `--without` leaves out test files whose path matches the pattern, such as those that need a network. Each test file is
 * audited as a task whose listed tests are all of its tests that pass: the audit then turns assertions of all of them where they stand,
 * and of up to 24 in copies. Needs root, because the audit gives it up. Exit 2 if nothing was audited.
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

/** Of one test file: an audit may take several times as long as its tests. */
const AUDIT_MS = 600_000
const SUITE_MS = 300_000

endWith2OnError()
const { values } = benchArguments({
  options: {
    project: { type: 'string', multiple: true, default: [] },
    python: { type: 'string', default: '' },
    without: { type: 'string' },
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
  const isTest = (file: string): boolean =>
    /^tests\/(?:.*\/)?test_[^/]*\.py$/.test(file) && without?.test(file) !== true
  const passing = await passingTests(directory, files.filter(isTest))
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
      runner: 'pytest',
      pristine,
      patch: { 'note.txt': 'changed\n' },
      hidden: { [file]: hidden },
      prepare: (repository) => copyProject({ directory, files: binary, repository }),
      spec: { timeout_s: AUDIT_MS / 1000, modules: [file], focus },
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
async function passingTests(directory: string, testFiles: readonly string[]): Promise<Map<string, string[]>> {
  const folder = await mkdtemp(join(tmpdir(), 'honest-suites-'))
  try {
    await copyProject({ directory, files: await filesBelow(directory), repository: folder })
    const args = ['-m', 'pytest', '-q', '-rA', '--tb=no', '-p', 'no:cacheprovider', '--continue-on-collection-errors']
    const env = { ...process.env, PYTHONPATH: folder, PYTHONDONTWRITEBYTECODE: '1' }
    const printed = await new Promise<string>((resolve) => {
      const options = { cwd: folder, env, maxBuffer: 1 << 28, timeout: SUITE_MS }
      // Exit 1 where some tests fail, as in places without a network.
      execFile(python, [...args, ...testFiles], options, (_error, stdout) => resolve(stdout))
    })
    const passing = new Map<string, string[]>()
    for (const [, id = ''] of printed.matchAll(/^PASSED (\S.*)$/gm)) {
      const file = id.split('::')[0] ?? ''
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
