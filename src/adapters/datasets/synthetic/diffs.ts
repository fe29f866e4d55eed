import { blobId } from './repository-tar.ts'

const CONTEXT_LINES = 3

export interface LineChanges {
  path: string
  before: readonly string[]
  /** The same number of lines as before. Lines only change, and no new line equals an adjacent old one. */
  after: readonly string[]
}

/** Returns the diff that Git prints when lines of a file change. Files end with a newline. Returns nothing without changes. */
export function lineChangesDiff({ path, before, after }: LineChanges): string {
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
export function joinLines(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join('')
}

function shortId(lines: readonly string[]): string {
  return blobId(joinLines(lines)).slice(0, 7)
}
