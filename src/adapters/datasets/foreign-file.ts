interface ForeignKind {
  begins: (start: string) => boolean
  /** A clause with what to do. */
  says: string
}

const packed = (name: string, unpack: string): string => `it is packed with ${name}: unpack it first (${unpack})`
const PARQUET = 'PAR1'

/** By the first bytes, as Latin-1. */
const KINDS: readonly ForeignKind[] = [
  { begins: (start) => start.startsWith('\x1f\x8b'), says: packed('gzip', 'gunzip FILE.gz') },
  { begins: (start) => start.startsWith('\x28\xb5\x2f\xfd'), says: packed('Zstandard', 'zstd -d FILE.zst') },
  { begins: (start) => start.startsWith('BZh'), says: packed('bzip2', 'bunzip2 FILE.bz2') },
  { begins: (start) => start.startsWith('\xfd7zXZ'), says: packed('xz', 'unxz FILE.xz') },
  { begins: (start) => start.startsWith('PK\x03\x04'), says: packed('zip', 'unzip FILE.zip') },
  {
    begins: (start) => start.startsWith(PARQUET),
    says: 'it is Parquet: longhaul tasks import FILE.parquet --output FILE.jsonl, with a name of that ending, makes rows of it',
  },
  {
    // With its mark, or two characters of which one half is empty.
    begins: (start) => /^(?:\xff\xfe|\xfe\xff|[^\0]\0[^\0]\0|\0[^\0]\0[^\0])/.test(start),
    says: 'it is UTF-16; save it as UTF-8',
  },
  {
    begins: (start) => start.startsWith('version https://git-lfs'),
    says: 'it is a pointer of Git LFS, and the file itself is elsewhere: fetch it with git lfs pull',
  },
  {
    begins: (start) => /^(?:\xef\xbb\xbf)?\s*<(?:!doctype|html|\?xml)/i.test(start),
    says: 'it is a page of a website: download the file itself',
  },
]

/** What a file is instead of rows of JSON, by how it begins, and what to do; null if it may be JSON. */
export function describeForeign(start: Uint8Array): string | null {
  const text = Buffer.from(start.subarray(0, 64)).toString('latin1')
  return KINDS.find(({ begins }) => begins(text))?.says ?? null
}

/** The same for a file that should be Parquet. */
export function describeNotParquet(start: Uint8Array): string | null {
  const text = Buffer.from(start.subarray(0, 64)).toString('latin1')
  if (text.startsWith(PARQUET)) return null
  const isJson = /^(?:\xef\xbb\xbf)?\s*[[{]/.test(text)
  return describeForeign(start) ?? (isJson ? 'it looks like JSON: name it FILE.json or FILE.jsonl' : null)
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const BRACKET = 0x5b
const BRACE = 0x7b
const NEW_LINE = 0x0a

/** What an empty list or object takes in memory, in elements of a list. */
const CONTAINER = 8

/**
 * What JSON weighs once it is parsed: its elements, and eight for each list and object. Two bytes of text can make sixty of memory, and
 * where memory ends, so does the process. Reads once over the text, which may be no JSON; a line ends every string.
 * @param most stops counting beyond this
 */
export function weighJson(text: string, most: number): number {
  let weight = 0
  let isString = false
  for (let at = 0; at < text.length && weight <= most; at++) {
    const code = text.charCodeAt(at)
    if (code === NEW_LINE) {
      isString = false
      weight += 1
    } else if (code === QUOTE) isString = !isString
    else if (isString) at += code === BACKSLASH && text.charCodeAt(at + 1) !== NEW_LINE ? 1 : 0
    else if (code === COMMA) weight += 1
    else if (code === BRACKET || code === BRACE) weight += CONTAINER
  }
  return weight
}
