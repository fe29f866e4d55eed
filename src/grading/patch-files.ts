/** One file of a patch as Git writes it, with renames switched off. */
export interface PatchFile {
  path: string
  kind: 'added' | 'deleted' | 'changed'
  /** File mode after the patch, as in the header; null where it does not say. */
  mode: string | null
  /** Text that the patch adds, without the `+`. */
  added: string[]
  /** Every line of the hunks, their headers included: what surrounds a change tells which section it is in. */
  lines: string[]
}

/** Reads leniently: a patch of the agent's may be anything, and applying it is Git's business. */
export function readPatchFiles(patch: Uint8Array): PatchFile[] {
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(patch)
  // Inside a hunk every line has a prefix, and base85 has no blanks: only headers begin like this.
  return text
    .split(/^(?=diff --git )/m)
    .filter((part) => part.startsWith('diff --git '))
    .map(readFile)
}

function readFile(part: string): PatchFile {
  const lines = part.split('\n')
  const firstHunk = lines.findIndex((line) => line.startsWith('@@ ') || line === 'GIT binary patch')
  const header = firstHunk < 0 ? lines : lines.slice(0, firstHunk)
  const body = firstHunk < 0 ? [] : lines.slice(firstHunk)
  const find = (start: string): string | undefined => header.find((line) => line.startsWith(start))?.slice(start.length)
  const newMode = find('new file mode ') ?? find('new mode ') ?? / (\d{6})$/.exec(find('index ') ?? '')?.[1] ?? null
  const isDeleted = find('deleted file mode ') !== undefined
  return {
    path: pathOf(header),
    kind: isDeleted ? 'deleted' : find('new file mode ') === undefined ? 'changed' : 'added',
    mode: newMode,
    added: body.filter((line) => line.startsWith('+')).map((line) => line.slice(1)),
    lines: body,
  }
}

function pathOf(header: readonly string[]): string {
  for (const line of header) {
    const name = /^(?:\+\+\+|---) (.+?)\t?$/.exec(line)?.[1]
    if (name !== undefined && name !== '/dev/null') return unquote(name).replace(/^[ab]\//, '')
  }
  // No text changed: the header holds the same name twice.
  const names = (header[0] ?? '').slice('diff --git '.length)
  const half = names.slice(0, Math.floor(names.length / 2))
  return unquote(half).replace(/^a\//, '')
}

/** Git quotes names with unusual bytes as a C string. */
function unquote(name: string): string {
  if (!name.startsWith('"')) return name
  const bytes = name
    .slice(1, name.endsWith('"') ? -1 : undefined)
    .replaceAll(/\\(?:([0-7]{3})|(.))/g, (_, octal: string | undefined, letter: string | undefined) =>
      octal === undefined
        ? ({ n: '\n', t: '\t' }[letter ?? ''] ?? letter ?? '')
        : String.fromCharCode(Number.parseInt(octal, 8)),
    )
  return Buffer.from(bytes, 'latin1').toString()
}
