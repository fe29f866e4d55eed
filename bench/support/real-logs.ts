/** Stored test logs of real agents' runs, found in a folder of checkouts together with their tests and verdicts. */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { PARSERS_4 } from '../../src/grading/parsers/names.ts'
import { END_MARKER, START_MARKER } from '../../src/grading/log-slice.ts'
import type { ListedTests } from '../../src/grading/resolution.ts'

export interface RealLog {
  /** Relative to the folder. */
  path: string
  instanceId: string
  /** Repository by which 4.1 and the fork select the parser; null if they do not know it. */
  repository: string | null
  /** The parser's function in later versions. */
  parser: string
  /** As stored. */
  raw: Uint8Array
  /** With today's markers; logs of the first format had others. */
  marked: Uint8Array
  tests: ListedTests | null
  /** The verdict of its authors' own evaluation. */
  recorded: boolean | null
}

const LOG_NAME = /\.eval\.log$|^test_output[^/]*\.txt$/
const LOG_FOLDER = /\/test_output\/[^/]+\.txt$/
const INSTANCE = /([A-Za-z0-9-]+)__([A-Za-z0-9.-]+?-\d+)(?=[./]|$)/
/** In the first format the output of the tests follows this line. */
const APPLIED = '>>>>> Applied Patch (pred)'
const REPORTS = ['report.json', 'final_report.json', 'results.json']
/** Repositories that are not in SWE-bench use pytest, or its parser. */
const OTHER_PARSER = 'parse_log_pytest'

/** Logs with distinct bytes, ordered by path. */
export function findRealLogs(folder: string, rowFiles: readonly string[] = []): RealLog[] {
  const files = filesIn(folder)
  const tests = readTests(
    folder,
    files.filter((file) => basename(file) === 'meta.json'),
    rowFiles,
  )
  const recordedBy = new Map<string, Record<string, unknown> | null>()
  const seen = new Set<string>()
  const logs: RealLog[] = []
  for (const path of files) {
    if (!LOG_NAME.test(basename(path)) && !LOG_FOLDER.test(`/${path}`)) continue
    const raw = readFileSync(join(folder, path))
    const hash = createHash('sha256').update(raw).digest('hex')
    if (raw.length === 0 || seen.has(hash)) continue
    seen.add(hash)
    const instanceId = instanceOf(path)
    const repository = repositoryOf(instanceId)
    logs.push({
      path,
      instanceId,
      repository,
      parser: repository === null ? OTHER_PARSER : functionOf(repository),
      raw,
      marked: withMarkers(raw),
      tests: tests.get(instanceId) ?? null,
      recorded: recordedVerdict({ folder, path, instanceId, known: recordedBy }),
    })
  }
  return logs
}

function filesIn(folder: string): string[] {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
    throw new Error(`Expected a folder of logs, got ${folder}`)
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .toSorted()
}

/** The last id in a path: the file or one of its folders is named by it. */
function instanceOf(path: string): string {
  const parts = path.split('/').toReversed()
  return parts.map((part) => INSTANCE.exec(part)?.[0]).find((id) => id !== undefined) ?? basename(path)
}

function repositoryOf(instanceId: string): string | null {
  const repository = instanceId.replace('__', '/').replace(/-\d+$/, '')
  return PARSERS_4.has(repository) ? repository : null
}

/** All names of one kind share a parser in every version. */
function functionOf(repository: string): string {
  const parser = PARSERS_4.get(repository)
  const found = [...PARSERS_4].find(([name, one]) => one === parser && name.startsWith('parse_log_'))
  return found?.[0] ?? OTHER_PARSER
}

function withMarkers(raw: Buffer): Buffer {
  const applied = raw.indexOf(APPLIED)
  if (applied < 0 || raw.includes(START_MARKER)) return raw
  return Buffer.concat([
    Buffer.from(`${START_MARKER}\n`),
    raw.subarray(applied + APPLIED.length),
    Buffer.from(`\n${END_MARKER}\n`),
  ])
}

/** Reads tests from rows in JSON lines, and from the descriptions that an agent stored beside its patches. */
function readTests(folder: string, metas: readonly string[], rowFiles: readonly string[]): Map<string, ListedTests> {
  const rows = [
    ...metas.map((file) => taskInfoIn(readFileSync(join(folder, file), 'utf8'))),
    ...rowFiles.flatMap((file) =>
      readFileSync(file, 'utf8')
        .split('\n')
        .filter((line) => line.trim() !== '')
        .map((line) => JSON.parse(line) as Record<string, unknown>),
    ),
  ]
  const tests = new Map<string, ListedTests>()
  for (const row of rows) {
    const [failToPass, passToPass] = [namesIn(row?.['FAIL_TO_PASS']), namesIn(row?.['PASS_TO_PASS'])]
    if (failToPass !== null && passToPass !== null) tests.set(String(row?.['instance_id']), { failToPass, passToPass })
  }
  return tests
}

function taskInfoIn(text: string): Record<string, unknown> | null {
  const meta = parse(text)
  const info = meta?.['task_info']
  return typeof info === 'object' && info !== null ? (info as Record<string, unknown>) : null
}

function namesIn(value: unknown): string[] | null {
  const list: unknown = typeof value === 'string' ? JSON.parse(value) : value
  return Array.isArray(list) && list.every((name) => typeof name === 'string') ? list : null
}

/** The verdict of the nearest report above a log: its own report, or a list of what a whole run resolved. */
function recordedVerdict({
  folder,
  path,
  instanceId,
  known,
}: {
  folder: string
  path: string
  instanceId: string
  known: Map<string, Record<string, unknown> | null>
}): boolean | null {
  for (let at = dirname(path); ; at = dirname(at)) {
    for (const name of REPORTS) {
      const file = join(at, name)
      if (!known.has(file)) known.set(file, readReport(join(folder, file)))
      const report = known.get(file)
      if (report === null || report === undefined) continue
      const own = report[instanceId] as { resolved?: unknown } | undefined
      if (typeof own?.resolved === 'boolean') return own.resolved
      const [resolved, graded] = [report['resolved'], report['generated'] ?? report['with_logs']]
      if (Array.isArray(resolved) && Array.isArray(graded) && graded.includes(instanceId)) {
        return resolved.includes(instanceId)
      }
    }
    if (at === '.' || at === '/') return null
  }
}

function readReport(file: string): Record<string, unknown> | null {
  return statSync(file, { throwIfNoEntry: false })?.isFile() ? parse(readFileSync(file, 'utf8')) : null
}

function parse(text: string): Record<string, unknown> | null {
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return null
  }
}
