import { type PatchFile, readPatchFiles } from '../patch-files.ts'
import { readPatchedFiles } from '../test-patch.ts'

/** One path that the row's test patch names. */
export interface HiddenFile {
  path: string
  /** Absent before the test patch. */
  isNew: boolean
  /** Present after the test patch. */
  isLeft: boolean
}

/** @throws LonghaulError `Task.Invalid` for a test patch that cannot be read */
export function hiddenFiles(testPatch: string): HiddenFile[] {
  const files = readPatchFiles(Buffer.from(testPatch)).map(
    ({ path, kind }): HiddenFile => ({ path, isNew: kind === 'added', isLeft: kind !== 'deleted' }),
  )
  const named = new Set(files.map(({ path }) => path))
  const sources = readPatchedFiles(testPatch).flatMap(({ source }) =>
    source.startsWith('a/') ? [source.slice(2)] : [],
  )
  // The old name of a file that the test patch renames.
  const moved = sources.filter((path) => !named.has(path))
  return [...files, ...moved.map((path) => ({ path, isNew: false, isLeft: false }))]
}

/** Names that steer an interpreter, Git or a test runner from any folder. */
const STEERING = [
  'conftest.py',
  'pytest.ini',
  '.pytest.ini',
  'pytest.toml',
  '.pytest.toml',
  'tox.ini',
  'setup.cfg',
  'pyproject.toml',
  '.gitattributes',
  '*.pth',
  '*.egg-link',
  'sitecustomize*',
  'usercustomize*',
]
/** The leading star matches parent folders too; `sitecustomize*` above matches a folder of that name. */
const STEERING_FOLDERS = ['*.dist-info/*', '*.egg-info/*']
/** Names of tests and their helpers in any folder: a helper that checks nothing is no repair. */
const TEST_NAMES = ['test_*.py', '*_test.py', '*_tests.py', 'tests.py', 'test.py']
const TEST_SUPPORT = [
  'testing.py',
  '*_testing.py',
  'testutil*.py',
  'testhelper*.py',
  'testlib.py',
  'testsupport.py',
  'testcase*.py',
]
const TEST_FOLDERS = ['test', 'tests', 'testing', '*_testing', 'testutil*', 'testhelper*', 'testlib', 'testsupport']
/** Compiled code: an interpreter loads it before the source of the same name, and no repair needs it. */
const COMPILED = ['*.so', '*.pyd', '*.pyc', '*.pyo', '*.dll', '*.dylib']

/**
 * Options of `git apply` that keep the patch's changes to tests out of the tested tree: files that configure a runner, every file
 * that the test patch names, the test folder around it, and every file named like a test or a test helper. Files that the reference
 * solution changes stay as the patch left them. The first option that matches a path decides.
 */
export function treeLimits({ hidden, goldPatch }: { hidden: readonly HiddenFile[]; goldPatch: string }): string[] {
  const paths = hidden.map(({ path }) => path)
  const own = new Set(paths)
  const folders = new Set(paths.flatMap((path) => testFolder(path) ?? []))
  const repaired = readPatchFiles(Buffer.from(goldPatch)).map(({ path }) => path)
  const kept = repaired.filter((path) => !own.has(path))
  return [
    ...STEERING.flatMap((name) => [name, `*/${name}`]).map(exclude),
    ...STEERING_FOLDERS.map(exclude),
    ...[...own].map((path) => exclude(literal(path))),
    ...kept.map((path) => `--include=${literal(path)}`),
    ...[...folders].map((folder) => exclude(`${literal(folder)}/*`)),
    ...[...TEST_NAMES, ...TEST_SUPPORT, ...COMPILED].flatMap((name) => [name, `*/${name}`]).map(exclude),
    ...TEST_FOLDERS.flatMap((name) => [`${name}/*`, `*/${name}/*`]).map(exclude),
    '--include=*',
  ]
}

const exclude = (pattern: string): string => `--exclude=${pattern}`

/** Files of the patch that these limits keep out of the tested tree. The audit cannot confirm a repair that needs one of them. */
export function findLeftOut(files: readonly PatchFile[], limits: readonly string[]): string[] {
  const rules = limits.map((option) => {
    const at = option.indexOf('=')
    return { isExcluded: option.slice(0, at) === '--exclude', parts: partsOf(option.slice(at + 1)) }
  })
  return files
    .map(({ path }) => path)
    .filter((path) => rules.find(({ parts }) => hasParts(path, parts))?.isExcluded ?? false)
}

/** A patch adds few such modules; the audit searches the whole tree for each. */
const MAX_ADDITIONS = 20

/**
 * New modules that are named like tests but lie outside of test folders. A module may be part of a repair, and cannot help the tests,
 * if neither the commit nor a hidden test contains its name: then only the patch itself can load it. The container searches the
 * commit.
 */
export function findAdditions(
  files: readonly PatchFile[],
  { hidden, testPatch }: { hidden: readonly HiddenFile[]; testPatch: string },
): string[] {
  const isNamedLike = (name: string, patterns: readonly string[]): boolean =>
    patterns.some((pattern) => hasParts(name, partsOf(pattern)))
  const folders = new Set(hidden.flatMap(({ path }) => testFolder(path) ?? []))
  const isAddition = ({ path, kind, mode }: PatchFile): boolean => {
    const parents = path.split('/')
    const name = parents.pop() ?? ''
    // Every pattern for test names ends in `.py`.
    const module = name.slice(0, -'.py'.length)
    return (
      kind === 'added' &&
      (mode === '100644' || mode === '100755') &&
      // Characters that neither a shell nor Git's patterns interpret.
      /^\w[\w./-]{0,500}$/.test(path) &&
      /^\w{3,}$/.test(module) &&
      isNamedLike(name, [...TEST_NAMES, ...TEST_SUPPORT]) &&
      !parents.some((folder) => isNamedLike(folder, TEST_FOLDERS)) &&
      ![...folders].some((folder) => path.startsWith(`${folder}/`)) &&
      !testPatch.includes(module)
    )
  }
  return files
    .filter(isAddition)
    .map(({ path }) => path)
    .slice(0, MAX_ADDITIONS)
}

/** The texts between the stars of a pattern, without the backslashes of `literal`. */
function partsOf(pattern: string): string[] {
  const parts = ['']
  for (const [part] of pattern.matchAll(/\\?[^]/g)) {
    if (part === '*') parts.push('')
    else parts.push(`${parts.pop() ?? ''}${part.at(-1) ?? ''}`)
  }
  return parts
}

/** Whether the text begins with the first part, ends with the last, and has the others in order between them; one pass. */
function hasParts(text: string, [first = '', ...others]: readonly string[]): boolean {
  const last = others.pop()
  if (last === undefined) return text === first
  if (!text.startsWith(first)) return false
  let from = first.length
  for (const part of others) {
    const at = text.indexOf(part, from)
    if (at < 0) return false
    from = at + part.length
  }
  return text.length - last.length >= from && text.endsWith(last)
}

/** The topmost test folder above a path; null if the path lies in none. */
function testFolder(path: string): string | null {
  const folders = path.split('/').slice(0, -1)
  const first = folders.findIndex((name) => /^(?:unit|functional|integration)?_?tests?$|^testing$|^specs?$/i.test(name))
  return first < 0 ? null : folders.slice(0, first + 1).join('/')
}

/** Escapes a path for Git's patterns, in which `*` also matches slashes. */
function literal(path: string): string {
  return path.replaceAll(/[\\*?[\]]/g, String.raw`\$&`)
}

/**
 * A path of the patch that collides with the hidden tests: a file that the tests add, a link or submodule in place of a test file, a
 * name that differs only in case, or a file where the tests need a folder (or a folder for a file). Other changes to existing test
 * files do not collide: the audit restores those files.
 */
export function findCollision(files: readonly PatchFile[], hidden: readonly HiddenFile[]): string | null {
  const collides = ({ path, kind, mode }: PatchFile): boolean =>
    hidden.some((own) => {
      if (own.path === path) return kind !== 'deleted' && (own.isNew || mode === '120000' || mode === '160000')
      if (kind === 'deleted') return false
      const [left, right] = [fold(path), fold(own.path)]
      return left === right || right.startsWith(`${left}/`) || left.startsWith(`${right}/`)
    })
  return files.find(collides)?.path ?? null
}

/** Compares names as case-insensitive file systems do. */
function fold(path: string): string {
  return path.normalize('NFC').toUpperCase().toLowerCase()
}

/** A file that an interpreter or a test runner loads automatically, unless the reference solution has it too. */
export function findStartupHook(files: readonly PatchFile[], goldPatch: string): string | null {
  const needed = new Set(readPatchFiles(Buffer.from(goldPatch)).map(({ path }) => path))
  return files.find((file) => file.kind !== 'deleted' && !needed.has(file.path) && isStartupHook(file))?.path ?? null
}

function isStartupHook({ path, added }: PatchFile): boolean {
  const parts = path.split('/')
  const isCustomize = parts.some((name) => /^(?:site|user)customize(?:\.|$)/.test(name))
  const isEntryPoints = parts.at(-1) === 'entry_points.txt' && /\.(?:dist|egg)-info$/.test(parts.at(-2) ?? '')
  return path.endsWith('.pth') || isCustomize || (isEntryPoints && added.some((line) => line.includes('pytest11')))
}
