import { type PatchFile, readPatchFiles } from '../patch-files.ts'
import { readPatchedFiles } from '../test-patch.ts'

/** One path that the row's test patch names. */
export interface HiddenFile {
  path: string
  /** Not there before the test patch. */
  isNew: boolean
  /** There after it. */
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
  // The old name of a file that the test patch moves.
  const moved = sources.filter((path) => !named.has(path))
  return [...files, ...moved.map((path) => ({ path, isNew: false, isLeft: false }))]
}

/** Names that steer an interpreter, Git or a test runner wherever they lie. */
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
/** The star in front takes the folders above too; `sitecustomize*` among the names takes a folder of that name. */
const STEERING_FOLDERS = ['*.dist-info/*', '*.egg-info/*']
/** What tests are made of, wherever it lies: a helper that checks nothing is no repair. */
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
/** Compiled code, which comes before the source of the same name and which a repair is not made of. */
const COMPILED = ['*.so', '*.pyd', '*.pyc', '*.pyo', '*.dll', '*.dylib']

/**
 * Options of `git apply` that keep the patch's changes to tests out of the tested tree: files that configure a runner, every file
 * that the test patch names, the whole test folder around it, and every file named like a test or a test helper. Files that the
 * reference solution changes stay as the patch left them. The first option that matches a path decides.
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

/** Files of the patch that these limits keep out of the tested tree: a repair that needs one of them cannot be confirmed. */
export function findLeftOut(files: readonly PatchFile[], limits: readonly string[]): string[] {
  const rules = limits.map((option) => {
    const at = option.indexOf('=')
    return { isExcluded: option.slice(0, at) === '--exclude', parts: partsOf(option.slice(at + 1)) }
  })
  return files
    .map(({ path }) => path)
    .filter((path) => rules.find(({ parts }) => hasParts(path, parts))?.isExcluded ?? false)
}

/** A patch has few; each is looked for in the whole tree. */
const MAX_ADDITIONS = 20

/**
 * New modules that are named like tests and lie where no tests do. They may be a part of a repair, and are no help for tests where no
 * file of the commit and no hidden test has a word of their name: then only the patch itself can load them. The commit is searched in
 * the container.
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
    // Every name that tests have ends so.
    const module = name.slice(0, -'.py'.length)
    return (
      kind === 'added' &&
      (mode === '100644' || mode === '100755') &&
      // Of letters that neither a shell nor Git's patterns read in another way.
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

/** What lies between the stars of a pattern, without the marks of `literal`. */
function partsOf(pattern: string): string[] {
  const parts = ['']
  for (const [part] of pattern.matchAll(/\\?[^]/g)) {
    if (part === '*') parts.push('')
    else parts.push(`${parts.pop() ?? ''}${part.at(-1) ?? ''}`)
  }
  return parts
}

/** The first and the last part lie at the ends, the others anywhere between them in their order: in one pass over the text. */
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

/** The uppermost folder of tests above a path; null where it lies in none. */
function testFolder(path: string): string | null {
  const folders = path.split('/').slice(0, -1)
  const first = folders.findIndex((name) => /^(?:unit|functional|integration)?_?tests?$|^testing$|^specs?$/i.test(name))
  return first < 0 ? null : folders.slice(0, first + 1).join('/')
}

/** For Git's patterns, in which `*` matches slashes too. */
function literal(path: string): string {
  return path.replaceAll(/[\\*?[\]]/g, String.raw`\$&`)
}

/**
 * A path of the patch at which the hidden tests cannot be what they are: one that they bring anew, one that differs by case only,
 * and a file where they need a folder or the other way round. A test file that was there before may be changed: it is put back.
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

/** As file systems that ignore case compare names. */
function fold(path: string): string {
  return path.normalize('NFC').toUpperCase().toLowerCase()
}

/** A file that an interpreter or a test runner loads by itself; what the reference solution has too is the task's own. */
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
