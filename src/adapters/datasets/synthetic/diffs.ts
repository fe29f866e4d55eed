import { blobId } from './git-objects.ts'

const CONTEXT_LINES = 3

export interface LineChange {
  path: string
  before: string[]
  /** 1-based. */
  line: number
  text: string
}

/** The diff that Git prints when one line of a file changes. Files end with a newline. */
export function lineChangeDiff({ path, before, line, text }: LineChange): string {
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
export function joinLines(lines: string[]): string {
  return lines.map((line) => `${line}\n`).join('')
}

function shortId(lines: string[]): string {
  return blobId(joinLines(lines)).slice(0, 7)
}
