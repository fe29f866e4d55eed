/** One file of a patch that Git wrote without rename detection. */
export interface PatchFile {
  path: string
  kind: 'added' | 'deleted' | 'changed'
  /** File mode after the patch, from the header; null if the header has none. */
  mode: string | null
  /** Added lines, without the `+`. */
  added: string[]
  /** Every line of the hunks, headers included: the context shows which section a change is in. */
  lines: string[]
}

/**
 * Reads leniently: an agent's patch may contain anything, and Git decides whether it applies. As in Git only LF ends a line, so no
 * other character (U+2028, CR, form feed) can begin a file or end a hunk for this reader alone.
 */
export function readPatchFiles(patch: Uint8Array): PatchFile[] {
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(patch)
  return splitFiles(text.split('\n')).map(readFile)
}

/** The lines of each file. Lines before the first file are dropped. */
function splitFiles(lines: readonly string[]): string[][] {
  const files: string[][] = []
  /** Lines of the open hunk that are still to come. */
  let [source, target] = [0, 0]
  /** Whether the open file's names have been read: the next `---` outside of a hunk then begins another file. */
  let isNamed = true
  for (const [index, line] of lines.entries()) {
    const isContent = (source > 0 || target > 0) && /^(?:[ +\\-]|$)/.test(line)
    if (isContent) {
      if (!/^[+\\]/.test(line)) source -= 1
      if (!/^[-\\]/.test(line)) target -= 1
      files.at(-1)?.push(line)
      continue
    }
    const isHeader = line.startsWith('diff --git ')
    const isPlainHeader = isNamed && line.startsWith('--- ') && lines[index + 1]?.startsWith('+++ ') === true
    if (isHeader || isPlainHeader) files.push([])
    if (isHeader) isNamed = false
    else if (line.startsWith('+++ ')) isNamed = true
    const counts = HUNK.exec(line)
    source = counts === null ? 0 : Number(counts[1] ?? 1)
    target = counts === null ? 0 : Number(counts[2] ?? 1)
    files.at(-1)?.push(line)
  }
  return files
}

const HUNK = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/

function readFile(lines: readonly string[]): PatchFile {
  const firstHunk = lines.findIndex((line) => line.startsWith('@@ ') || line === 'GIT binary patch')
  const header = firstHunk < 0 ? lines : lines.slice(0, firstHunk)
  const body = firstHunk < 0 ? [] : lines.slice(firstHunk)
  const find = (start: string): string | undefined => header.find((line) => line.startsWith(start))?.slice(start.length)
  const newMode = find('new file mode ') ?? find('new mode ') ?? / (\d{6})$/.exec(find('index ') ?? '')?.[1] ?? null
  return {
    path: pathOf(header, find),
    kind: kindOf(find),
    mode: newMode,
    added: body.filter((line) => line.startsWith('+')).map((line) => line.slice(1)),
    lines: body,
  }
}

type Find = (start: string) => string | undefined

function kindOf(find: Find): PatchFile['kind'] {
  if (find('deleted file mode ') !== undefined || find('+++ ') === '/dev/null') return 'deleted'
  const isNew = ['new file mode ', 'rename to ', 'copy to '].some((words) => find(words) !== undefined)
  return isNew || find('--- ') === '/dev/null' ? 'added' : 'changed'
}

function pathOf(header: readonly string[], find: Find): string {
  const moved = find('rename to ') ?? find('copy to ')
  if (moved !== undefined) return unquote(moved)
  // A tab ends a name; a date follows it.
  const named = [find('+++ '), find('--- ')].map((name) => name?.split('\t', 1)[0])
  const name = named.find((one) => one !== undefined && one !== '' && one !== '/dev/null')
  if (name !== undefined) return unquote(name).replace(/^[ab]\//, '')
  // No text changed: the header has the same name twice.
  const names = (header[0] ?? '').slice('diff --git '.length)
  const half = names.slice(0, Math.floor(names.length / 2))
  return unquote(half).replace(/^a\//, '')
}

/** The letters that Git writes after a backslash; other characters stand for themselves. */
const ESCAPES: Readonly<Record<string, number>> = { a: 7, b: 8, t: 9, n: 10, v: 11, f: 12, r: 13 }

/** Git quotes names with unusual bytes as a C string. */
function unquote(name: string): string {
  if (!name.startsWith('"')) return name
  const bytes = Buffer.from(name.slice(1, name.endsWith('"') ? -1 : undefined))
  const plain: number[] = []
  for (let at = 0; at < bytes.length; at++) {
    if (bytes[at] !== BACKSLASH) {
      plain.push(bytes[at] ?? 0)
      continue
    }
    const octal = /[0-7]{3}/.exec(bytes.toString('latin1', at + 1, at + 4))?.[0]
    const letter = String.fromCharCode(bytes[at + 1] ?? BACKSLASH)
    plain.push(octal === undefined ? (ESCAPES[letter] ?? letter.charCodeAt(0)) : Number.parseInt(octal, 8) & 0xff)
    at += octal === undefined ? 1 : 3
  }
  return Buffer.from(plain).toString()
}

const BACKSLASH = 0x5c
