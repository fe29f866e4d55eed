import { assertNever } from '../../contracts/errors.ts'
import { isTaskId } from '../../contracts/keys.ts'
import { SYNTHETIC_FAMILIES } from '../../contracts/synthetic-families.ts'
import type { GradingProfile, SyntheticSource, Task, TaskAsset } from '../../contracts/tasks.types.ts'
import { readPatchedFiles } from '../../grading/test-patch.ts'
import { isCount } from '../../domain/shapes.ts'
import { canonicalHash, isSha256Hex } from '../../platform/hash.ts'
import { RowColumns, setupCommitOf } from './row-columns.ts'
import { LOG_PROFILES } from '../../grading/log-profiles.ts'
import { commandsOf } from '../../grading/profiles/swebench-4.1.ts'
import { TESTBED } from '../../grading/profiles/testbed.ts'

interface NormalizeOptions {
  /** Position of the row (for instance `line 12`), for messages about rows without an id. */
  label?: string
}

/**
 * Converts a row of any SWE-bench or SWE-rebench publication into a task. A row that could not be graded exactly is refused, because a
 * guess would give wrong verdicts.
 * @throws LonghaulError `Task.Invalid` with row and column
 */
export function normalizeRow(row: unknown, { label = '(row without id)' }: NormalizeOptions = {}): Task {
  const columns = new RowColumns(row, label)
  const taskId = columns.text('instance_id')
  // Ids become part of file names, container names and image tags.
  if (!isTaskId(taskId)) {
    throw columns.refuse('instance_id', 'letters, digits, "_", "." and "-"', taskId)
  }
  const baseCommit = columns.text('base_commit')
  if (!/^[0-9a-f]{7,40}$/.test(baseCommit)) throw columns.refuse('base_commit', 'a commit id', baseCommit)
  const failToPass = columns.texts('FAIL_TO_PASS')
  // The official rule would count a task without such tests as resolved by any patch.
  if (failToPass.length === 0) throw columns.refuse('FAIL_TO_PASS', 'a list of at least one test', failToPass)
  const profile = rowProfile(columns)
  // Only images need it, but the person who imports the rows can still correct them.
  setupCommitOf(columns, { gradingProfile: profile, baseCommit })
  const repo = repository(columns)
  const synthetic = syntheticSource(columns)

  return {
    taskId,
    repo,
    baseCommit,
    statement: columns.text('problem_statement'),
    goldPatch: goldPatch(columns),
    testPatch: readableTestPatch(columns),
    failToPass,
    passToPass: columns.texts('PASS_TO_PASS'),
    gradingProfile: profile,
    installConfig: rowInstallConfig(columns, profile),
    ...harness(columns, profile),
    ...(hasListCommand(columns, profile) ? { deviations: ['list-command' as const] } : {}),
    image: rowImage({ columns, taskId, ...imageRule({ profile, taskId, synthetic }) }),
    repoDir: profile === 'rebench-v2' ? `/${repo.slice(repo.indexOf('/') + 1)}` : TESTBED,
    synthetic,
    createdAt: columns.optionalDate('created_at'),
    rowHash: canonicalHash(row),
  }
}

/** The second part becomes a directory of V2's images, and both a path of a mirror, so they must be plain names. */
function repository(columns: RowColumns): string {
  const repo = columns.text('repo')
  if (/^\w[\w.-]{0,99}\/(?!\.\.?$)[\w.-]{1,100}$/.test(repo)) return repo
  throw columns.refuse('repo', 'an owner and a name', repo)
}

interface ImageRuleInput {
  profile: GradingProfile
  taskId: string
  synthetic: SyntheticSource | null
}

/** Returns the columns that may name an image, and the name that upstream derives if they are empty. */
function imageRule({ profile, taskId, synthetic }: ImageRuleInput): { names: string[]; fallback: string | null } {
  const names = ['image_name', 'docker_image']
  switch (profile) {
    case 'fork-4.0.3':
      return { names, fallback: synthetic === null ? derivedImage('swerebench', taskId) : null }
    case 'swebench-4.1':
      return { names, fallback: derivedImage('swebench', taskId) }
    case 'swebench-5':
      return { names: ['image'], fallback: null }
    case 'rebench-v2':
      return { names, fallback: null }
    default:
      return assertNever(profile)
  }
}

/** Rows of the fork have nothing beyond their installation. Without the key, their stored tasks stay unchanged. */
function harness(columns: RowColumns, profile: GradingProfile): Pick<Task, 'harness'> {
  const version = columns.optionalWord('version')
  columns.object('meta')
  if (profile === 'fork-4.0.3') return {}
  const isV5 = profile === 'swebench-5'
  const assets = isV5 ? rowAssets(columns) : []
  const evalType = isV5 ? columns.text('eval_type') : null
  if (evalType !== null && evalType !== 'pass_and_fail' && evalType !== 'fail_only') {
    throw columns.refuse('eval_type', '"pass_and_fail" or "fail_only"', evalType)
  }
  return {
    harness: {
      version,
      evalScript: isV5 ? columns.text('eval_script') : null,
      evalType,
      language: columns.optionalText('language'),
      ...(assets.length === 0 ? {} : { assets }),
    },
  }
}

/** Upstream aborts on a row with a list of commands; Longhaul runs them as one chain. */
function hasListCommand(columns: RowColumns, profile: GradingProfile): boolean {
  if (profile !== 'fork-4.0.3') return false
  const { install, test_cmd: testCommand } = columns.object('install_config') ?? {}
  return Array.isArray(install) || Array.isArray(testCommand)
}

/** Lists the files of the tests first, then those of the repair, in upstream's order. */
function rowAssets(columns: RowColumns): TaskAsset[] {
  const declared = columns.object('image_assets') ?? {}
  return ['test_patch', 'patch'].flatMap((kind) => {
    const entries = declared[kind] ?? []
    if (!Array.isArray(entries)) throw columns.refuse(`image_assets.${kind}`, 'a list of files', entries)
    return entries.flatMap((entry: unknown) => {
      const { path, url, sha256 } = (entry ?? {}) as { path?: unknown; url?: unknown; sha256?: unknown }
      if (path === undefined || path === null || path === '') return []
      // The path becomes part of shell lines and of a path in the container.
      if (typeof path !== 'string' || !/^[\w.@+-]+(?:\/[\w.@+-]+)*$/.test(path) || path.split('/').includes('..')) {
        throw columns.refuse(`image_assets.${kind}`, 'files with plain paths inside the repository', path)
      }
      const isPinned = sha256 !== undefined && sha256 !== null
      if (isPinned && (typeof sha256 !== 'string' || !isSha256Hex(sha256))) {
        throw columns.refuse(`image_assets.${kind}`, 'a SHA-256 of 64 hexadecimal digits', sha256)
      }
      return [{ path, url: typeof url === 'string' && url !== '' ? url : null, ...(isPinned ? { sha256 } : {}) }]
    })
  })
}

/** Refuses a diff that the grader cannot read, because it would fail at every grading without naming the row. */
/** Git judges its hunks at the gate. A column without a header of a file is no diff, but prose or a reference. */
function goldPatch(columns: RowColumns): string {
  const patch = columns.text('patch')
  if (!/^(?:diff --git|---) \S/m.test(patch)) throw columns.refuse('patch', 'a diff of at least one file', patch)
  return patch
}

function readableTestPatch(columns: RowColumns): string {
  const patch = columns.text('test_patch')
  const names = readPatchedFiles(patch).flatMap(({ source, target }) => [source, target])
  const outside = names.find((name) => !isInside(name))
  if (outside !== undefined) throw columns.refuse('test_patch', 'a diff of files inside the repository', outside)
  return patch
}

/** Of a header of a diff: `a/src/x.py`, possibly quoted, or `/dev/null`. */
function isInside(name: string): boolean {
  const path = name.trim().replaceAll(/^"|"$/g, '')
  return path === '/dev/null' || (!path.startsWith('/') && !/^[ab]\/\//.test(path) && !path.split('/').includes('..'))
}

function syntheticSource(columns: RowColumns): SyntheticSource | null {
  const source = columns.object('meta')?.['synthetic']
  if (source === undefined || source === null) return null
  const { family, seed, split, index } = source as Record<string, unknown>
  const known = SYNTHETIC_FAMILIES.find((one) => one === family)
  const isSplit = split === 'train' || split === 'eval'
  if (known === undefined || !isSplit || !isCount(seed) || !isCount(index)) {
    const families = SYNTHETIC_FAMILIES.join(' or ')
    throw columns.refuse('meta.synthetic', `a source {family, seed, split, index} of family ${families}`, source)
  }
  return { family: known, seed, split, index }
}

/**
 * Determines which harness a row was published for, by columns that are specific to its data sets: its own script (v5), a language or
 * base image (V2), an installation (v1 and its leaderboard), none of these (classic).
 */
function rowProfile(columns: RowColumns): GradingProfile {
  if (columns.has('eval_script') || columns.has('eval_type')) return 'swebench-5'
  if (!columns.has('install_config')) return 'swebench-4.1'
  const config = columns.object('install_config') ?? {}
  const isV2 =
    columns.has('language') || Object.hasOwn(config, 'base_image_name') || Object.hasOwn(config, 'log_parsers')
  return isV2 ? 'rebench-v2' : 'fork-4.0.3'
}

/**
 * Returns a complete image reference in the engine's form: the repository in lower case, and `:latest` if it has neither tag nor
 * digest. Returns null if the text is not a valid reference.
 */
function fullReference(text: string): string | null {
  const [name = '', digest, ...more] = text.split('@')
  const tag = /:([\w][\w.-]{0,127})$/.exec(name)
  const repository = (tag === null ? name : name.slice(0, tag.index)).toLowerCase()
  const isName = /^[a-z0-9][a-z0-9.-]*(?::\d+)?(?:\/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*$/.test(repository)
  const isDigest = digest === undefined || /^sha256:[0-9a-f]{64}$/.test(digest)
  if (!isName || repository.length > MAX_REPOSITORY || !isDigest || more.length > 0) return null
  if (digest !== undefined) return `${repository}${tag?.[0] ?? ''}@${digest}`
  return `${repository}${tag?.[0] ?? ':latest'}`
}

/** Of engines and registries. */
const MAX_REPOSITORY = 255

/** Derives the image name as upstream's harnesses do. A registry forbids two consecutive underscores, so they become `_1776_`. */
function derivedImage(namespace: 'swebench' | 'swerebench', taskId: string): string {
  return `${namespace}/sweb.eval.x86_64.${taskId.toLowerCase().replaceAll('__', '_1776_')}:latest`
}

interface RowImageInput {
  columns: RowColumns
  taskId: string
  /** Columns that may name the image, in order of precedence. */
  names: string[]
  /** Used if the row names no image; null means that such a row is refused. */
  fallback: string | null
}

/**
 * Returns the image that a row names, or the derived one. A row with the official name of another task's image is refused, because its
 * tests would run in another repository.
 */
function rowImage({ columns, taskId, names, fallback }: RowImageInput): string {
  const column = names.find((name) => columns.optionalText(name) !== null)
  if (column === undefined) {
    if (fallback !== null) return fallback
    throw columns.refuse(names.join(' or '), 'an image reference', null)
  }
  const text = columns.text(column)
  const image = fullReference(text)
  if (image === null) throw columns.refuse(column, 'an image reference', text)
  const owner = /sweb\.eval\.[^.]+\.([^:@/]+)(?:[:@]|$)/.exec(image)?.[1]
  if (owner !== undefined && !isNameOf(owner, taskId)) {
    throw columns.refuse(column, `the image of ${taskId}`, text)
  }
  // Names of V2's images contain the pull request and the commit.
  const commit = image.includes('swerebenchv2/') ? /:\d+-([0-9a-f]{7})$/.exec(image)?.[1] : undefined
  if (commit !== undefined && !columns.text('base_commit').startsWith(commit)) {
    throw columns.refuse(column, 'the image of its base_commit', text)
  }
  return image
}

/** The leaderboard's variants of a task whose statement lists the interface share the plain task's image. */
function isNameOf(owner: string, taskId: string): boolean {
  const plain = owner.replaceAll('_1776_', '__')
  const id = taskId.toLowerCase()
  return plain === id || plain === id.replace(/_interface$/, '')
}

/** Reads how the row's harness installs, runs the tests and parses the log. The classic harnesses look commands up by repository and
 *  version. */
function rowInstallConfig(columns: RowColumns, profile: GradingProfile): Task['installConfig'] {
  if (profile === 'swebench-4.1') {
    const logParser = knownParser(columns, profile, 'repo', columns.text('repo'))
    requireCommands(columns, logParser)
    return { install: null, testCmd: '', logParser }
  }
  if (profile === 'swebench-5') {
    return {
      install: null,
      testCmd: '',
      logParser: knownParser(columns, profile, 'log_parser', columns.text('log_parser')),
    }
  }
  const config = columns.object('install_config')
  // Upstream aborts its whole run on such a row.
  if (config === null) throw columns.refuse('install_config', 'an object', config)
  requireWord(columns, 'install_config.python', config['python'])
  const chain = profile === 'rebench-v2' ? '\n' : ' && '
  const testCmd = commandLine(columns, 'install_config.test_cmd', config['test_cmd'], chain)
  if (testCmd === null || testCmd.trim() === '')
    throw columns.refuse('install_config.test_cmd', 'a command', config['test_cmd'])
  return {
    install: commandLine(columns, 'install_config.install', config['install'], chain),
    testCmd,
    logParser: knownParser(columns, profile, 'install_config.log_parser', config['log_parser']),
  }
}

/** Accepts every parser name that upstream knows. A task whose parser this version has not ported is kept but cannot be run yet. */
function knownParser(columns: RowColumns, profile: GradingProfile, column: string, name: unknown): string {
  const { parsers, unported } = LOG_PROFILES[profile]
  if (typeof name === 'string' && (parsers.has(name) || unported.has(name))) return name
  throw columns.refuse(column, `a log parser of ${profile}`, name)
}

/** Upstream looks up commands by repository and version, and fails if there are none. */
function requireCommands(columns: RowColumns, repo: string): void {
  if (!LOG_PROFILES['swebench-4.1'].parsers.has(repo)) return
  const version = columns.optionalWord('version')
  if (commandsOf(repo, version) !== null) return
  throw columns.refuse('version', `a version of ${repo} that swebench 4.1.0 can test`, version)
}

/** Accepts text, a list of commands (joined as one chain), or nothing. */
function commandLine(columns: RowColumns, column: string, value: unknown, chain: string): string | null {
  if (value === undefined || value === null) return null
  const parts = Array.isArray(value) ? value : [value]
  // A script with a NUL character is no text to a shell.
  const isCommands = parts.every((part) => typeof part === 'string' && part.isWellFormed() && !part.includes('\0'))
  if (!isCommands) throw columns.refuse(column, 'a command', value)
  return parts.length === 0 ? null : parts.join(chain)
}

function requireWord(columns: RowColumns, column: string, value: unknown): void {
  if (value === undefined || value === null || typeof value === 'number') return
  // The text goes into paths and messages.
  if (typeof value === 'string' && /^[^\p{Cc}\p{Cf}\p{Cs}]{0,40}$/u.test(value.trim())) return
  throw columns.refuse(column, 'a version', value)
}
