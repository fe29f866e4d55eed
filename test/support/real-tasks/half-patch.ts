/** A part of a repair, as left by an agent that stops half-way. */

interface Hunk {
  /** Headers of the hunk's file. */
  file: string[]
  lines: string[]
}

/**
 * The first half of a patch's hunks; of a single hunk, the first half of its changed lines. The result applies wherever the whole
 * patch does.
 */
export function halfPatch(patch: string): string {
  const hunks = readHunks(patch)
  const [only] = hunks
  if (hunks.length === 1 && only !== undefined) {
    const half = halfHunk(only)
    return half.lines.slice(1).some((line) => /^[+-]/.test(line)) ? writeHunks([half]) : ''
  }
  return writeHunks(hunks.slice(0, Math.floor(hunks.length / 2)))
}

function readHunks(patch: string): Hunk[] {
  const hunks: Hunk[] = []
  let file: string[] = []
  let isHeader = false
  for (const line of patch.split('\n').slice(0, patch.endsWith('\n') ? -1 : undefined)) {
    if (line.startsWith('diff --git ')) {
      file = [line]
      isHeader = true
    } else if (line.startsWith('@@ ')) {
      isHeader = false
      hunks.push({ file, lines: [line] })
    } else if (isHeader) file.push(line)
    else hunks.at(-1)?.lines.push(line)
  }
  return hunks
}

function writeHunks(hunks: Hunk[]): string {
  let last: string[] | null = null
  const lines = hunks.flatMap(({ file, lines }) => {
    const headers = file === last ? [] : file
    last = file
    return [...headers, ...lines]
  })
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`
}

function halfHunk({ file, lines: [header = '', ...lines] }: Hunk): Hunk {
  const changed = lines.filter((line) => /^[+-]/.test(line)).length
  let left = Math.floor(changed / 2)
  const kept = lines.flatMap((line) => {
    if (!/^[+-]/.test(line)) return [line]
    left -= 1
    if (left >= 0) return [line]
    return line.startsWith('-') ? [` ${line.slice(1)}`] : []
  })
  const count = (sign: string): number => kept.filter((line) => line.startsWith(' ') || line.startsWith(sign)).length
  const [, old = '0', now = '0'] = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(header) ?? []
  return { file, lines: [`@@ -${old},${count('-')} +${now},${count('+')} @@`, ...kept] }
}
