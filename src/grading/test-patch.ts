import { LonghaulError } from '../contracts/errors.ts'

/** One file of a unified diff, with the names of its headers (`a/…`, `b/…`, `/dev/null`, possibly quoted). */
export interface PatchedFile {
  source: string
  target: string
}

interface OpenFile extends PatchedFile {
  /** Whether its `+++` line was read: the next `---` then belongs to another file. */
  hasNames: boolean
  hunks: number
  /** Whether its last hunk leaves nothing behind. */
  isEmptied: boolean
}

interface HunkCounts {
  source: number
  target: number
}

/**
 * The files of a unified diff, in order. Counts the lines of hunks, because upstream aborts on a diff that its reader rejects.
 * @throws LonghaulError `Task.Invalid` with the line that does not fit
 */
export function readPatchedFiles(patch: string): PatchedFile[] {
  const files: OpenFile[] = []
  let open: HunkCounts | null = null
  for (const [index, line] of patch.split('\n').entries()) {
    if (open !== null && (open.source > 0 || open.target > 0)) {
      countHunkLine(open, line, index)
      continue
    }
    const hunk = /^@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line)
    if (hunk !== null) {
      const last = files.at(-1)
      if (last === undefined) throw refuse('a file header before the first hunk', index)
      last.hunks += 1
      last.isEmptied = hunk[2] === '0' && hunk[3] === '0'
      open = { source: Number(hunk[1] ?? 1), target: Number(hunk[3] ?? 1) }
      continue
    }
    open = null
    readHeader(files, line)
  }
  if (open !== null && (open.source > 0 || open.target > 0))
    throw refuse('a complete last hunk', patch.split('\n').length)
  if (files.length === 0) throw refuse('at least one file', 0)
  return files.map(({ source, target, hunks, isEmptied }) => ({
    source,
    // A file that loses its only lines counts as deleted, as upstream's reader has it.
    target: hunks === 1 && isEmptied ? '/dev/null' : target,
  }))
}

function file(source: string, target: string): OpenFile {
  return { source, target, hasNames: false, hunks: 0, isEmptied: false }
}

function readHeader(files: OpenFile[], line: string): void {
  const names = readNames(line)
  if (names !== null) {
    files.push(file(...names))
    return
  }
  const side = /^(---|\+\+\+) ([^\t]+)/.exec(line)
  const last = files.at(-1)
  if (side?.[1] === '---') {
    // In a diff without Git's header, a file begins here.
    if (last === undefined || last.hasNames) files.push(file(side[2] ?? '', ''))
    else last.source = side[2] ?? ''
  }
  const named = files.at(-1)
  if (side?.[1] === '+++' && named !== undefined) {
    named.target = side[2] ?? ''
    named.hasNames = true
  }
  if (line.startsWith('deleted file mode') && last !== undefined) last.target = '/dev/null'
  if (line.startsWith('new file mode') && last !== undefined) last.source = '/dev/null'
}

const COMMAND = 'diff --git '

/** Both names of a `diff --git` line: Git quotes each by itself, and writes no `a/` and `b/` if it is told so. */
function readNames(line: string): [source: string, target: string] | null {
  if (!line.startsWith(COMMAND)) return null
  const names = line.slice(COMMAND.length)
  const [first, second] = [names.startsWith('"') ? '"' : '', names.endsWith('"') ? '"' : '']
  const prefixed = names.startsWith(`${first}a/`) ? splitNames(names, `${first} ${second}b/`) : null
  return prefixed ?? splitNames(names, `${first} ${second}`)
}

/** Splits at the last possible separator, each side of which has a name. */
function splitNames(names: string, between: string): [source: string, target: string] | null {
  const blank = between.indexOf(' ')
  const least = between.includes(' "') ? 2 : 1
  const at = names.lastIndexOf(between, names.length - between.length - least)
  return at <= 0 ? null : [names.slice(0, at + blank), names.slice(at + blank + 1)]
}

function countHunkLine(open: HunkCounts, line: string, index: number): void {
  if (line.startsWith('\\')) return
  const isContext = line.startsWith(' ') || line === ''
  if (!isContext && !line.startsWith('-') && !line.startsWith('+')) throw refuse('a line of the hunk', index)
  if (isContext || line.startsWith('-')) open.source -= 1
  if (isContext || line.startsWith('+')) open.target -= 1
  if (open.source < 0 || open.target < 0) throw refuse('as many lines as the hunk header says', index)
}

function refuse(expected: string, index: number): LonghaulError {
  return new LonghaulError({
    code: 'Task.Invalid',
    message: `Expected test_patch to hold ${expected}`,
    details: { column: 'test_patch', line: index + 1 },
  })
}
