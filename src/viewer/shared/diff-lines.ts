/** Splits a patch into numbered lines; text that is not a patch becomes plain lines. */

export interface DiffLine {
  kind: 'file' | 'hunk' | 'added' | 'removed' | 'context' | 'plain'
  text: string
  before: number | null
  after: number | null
}

const HUNK = /^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@/

export function diffLines(patch: string): DiffLine[] {
  const lines: DiffLine[] = []
  let before = 0
  let after = 0
  /** Lines left in the hunk on either side: within it, `--- x` is a removed line, not a header. */
  let left = { before: 0, after: 0 }
  for (const text of withoutLastEmpty(patch.split('\n'))) {
    const hunk = HUNK.exec(text)
    if (left.before + left.after > 0 && hunk === null) {
      const kind = kindOf(text)
      const [isBefore, isAfter] = [kind === 'removed' || kind === 'context', kind === 'added' || kind === 'context']
      lines.push({ kind, text, before: isBefore ? before : null, after: isAfter ? after : null })
      if (isBefore) [before, left.before] = [before + 1, left.before - 1]
      if (isAfter) [after, left.after] = [after + 1, left.after - 1]
      continue
    }
    if (hunk !== null) {
      before = Number(hunk[1])
      after = Number(hunk[3])
      left = { before: Number(hunk[2] ?? 1), after: Number(hunk[4] ?? 1) }
    }
    lines.push({ kind: hunk === null ? headerKind(text) : 'hunk', text, before: null, after: null })
  }
  return lines
}

function kindOf(text: string): DiffLine['kind'] {
  if (text.startsWith('+')) return 'added'
  if (text.startsWith('-')) return 'removed'
  return text.startsWith('\\') ? 'plain' : 'context'
}

function headerKind(text: string): DiffLine['kind'] {
  return /^(?:diff |index |--- |\+\+\+ |new file|deleted file|old mode|new mode|rename |similarity |Binary files)/.test(
    text,
  )
    ? 'file'
    : 'plain'
}

function withoutLastEmpty(lines: string[]): string[] {
  return lines.at(-1) === '' ? lines.slice(0, -1) : lines
}
