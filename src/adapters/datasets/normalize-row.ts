import type { SyntheticSource, Task } from '../../contracts/tasks.types.ts'
import { LOG_PROFILES } from '../../grading/log-profiles.ts'
import { readPatchedFiles } from '../../grading/test-patch.ts'
import { canonicalHash } from './canonical-hash.ts'
import { RowColumns } from './row-columns.ts'

/** Root of the repository in every image of the SWE-bench families. */
const REPO_DIR = '/testbed'

export interface NormalizeOptions {
  /** Where the row stands (for instance `line 12`), for messages about rows without an id. */
  label?: string
}

/**
 * A row of the SWE-rebench schema as a task. Strict: a row that could not be graded exactly is refused, never guessed.
 * @throws LonghaulError `Task.Invalid` with row and column
 */
export function normalizeRow(row: unknown, { label = '(row without id)' }: NormalizeOptions = {}): Task {
  const columns = new RowColumns(row, label)
  const taskId = columns.text('instance_id')
  // Ids become parts of file names, container names and image tags.
  if (!/^[A-Za-z0-9][A-Za-z0-9_.-]{0,199}$/.test(taskId)) {
    throw columns.refuse('instance_id', 'letters, digits, "_", "." and "-"', taskId)
  }
  const baseCommit = columns.text('base_commit')
  if (!/^[0-9a-f]{7,40}$/.test(baseCommit)) throw columns.refuse('base_commit', 'a commit id', baseCommit)
  const failToPass = columns.texts('FAIL_TO_PASS')
  // The official rule would call a task without such tests resolved by any patch.
  if (failToPass.length === 0) throw columns.refuse('FAIL_TO_PASS', 'a list of at least one test', failToPass)
  const image = columns.optionalText('image_name') ?? columns.optionalText('docker_image')
  if (image === null) throw columns.refuse('image_name', 'an image reference (or docker_image)', null)

  return {
    taskId,
    repo: columns.text('repo'),
    baseCommit,
    statement: columns.text('problem_statement'),
    goldPatch: columns.text('patch'),
    testPatch: readableTestPatch(columns),
    failToPass,
    passToPass: columns.texts('PASS_TO_PASS'),
    gradingProfile: 'fork-4.0.3',
    installConfig: installConfig(columns),
    image,
    repoDir: REPO_DIR,
    synthetic: syntheticSource(columns),
    createdAt: columns.optionalText('created_at'),
    rowHash: canonicalHash(row),
  }
}

function installConfig(columns: RowColumns): Task['installConfig'] {
  const config = columns.object('install_config')
  // Rows without it belong to the classic data sets, which another harness grades.
  if (config === null) throw columns.refuse('install_config', 'an object', config)
  const testCmd = commandLine(columns, 'install_config.test_cmd', config['test_cmd'])
  if (testCmd === null) throw columns.refuse('install_config.test_cmd', 'a command', config['test_cmd'])
  const logParser = config['log_parser']
  if (typeof logParser !== 'string' || !LOG_PROFILES['fork-4.0.3'].parsers.has(logParser)) {
    throw columns.refuse('install_config.log_parser', 'a log parser of this version', logParser)
  }
  return { install: commandLine(columns, 'install_config.install', config['install']), testCmd, logParser }
}

/** A diff that the grader cannot read would fail at every grading: refuse it here, where it has a name. */
function readableTestPatch(columns: RowColumns): string {
  const patch = columns.text('test_patch')
  readPatchedFiles(patch)
  return patch
}

/** Text, a list of commands (joined as one chain), or nothing. */
function commandLine(columns: RowColumns, column: string, value: unknown): string | null {
  if (value === undefined || value === null) return null
  const parts = Array.isArray(value) ? value : [value]
  if (!parts.every((part) => typeof part === 'string')) throw columns.refuse(column, 'a command', value)
  return parts.length === 0 ? null : parts.join(' && ')
}

function syntheticSource(columns: RowColumns): SyntheticSource | null {
  const source = columns.object('meta')?.['synthetic']
  if (source === undefined || source === null) return null
  const { family, seed, split, index } = source as Record<string, unknown>
  const isKnown = family === 'one-wrong-line' && (split === 'train' || split === 'eval')
  if (!isKnown || !isCount(seed) || !isCount(index)) {
    throw columns.refuse('meta.synthetic', 'a source {family, seed, split, index}', source)
  }
  return { family, seed, split, index }
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
