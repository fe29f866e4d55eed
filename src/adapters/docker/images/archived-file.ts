/** A file read out of a container. Its content is hostile, and `refused` means that it was not a plain file. */
export type ArchivedFile =
  /** `isWhole` is false if the file is longer than allowed; `bytes` is then its beginning. */
  { kind: 'file'; bytes: Buffer; isWhole: boolean } | { kind: 'refused'; reason: string }

export interface ReadArchivedFileInput {
  /** A tar stream of one file, as the engine's archive endpoint returns it. */
  stream: AsyncIterable<Uint8Array | string>
  /** The only name that is accepted. */
  name: string
  maxBytes: number
}

const BLOCK = 512
/** Limit for the extended attributes of one file; a larger header is hostile. */
const MAX_EXTENDED_BYTES = 64 * 1024

/**
 * Reads one regular file out of a tar stream. Refuses any other name, links, devices, pipes, directories, sparse maps and a second
 * entry. Never holds more than `maxBytes` in memory, even if a header claims more, and never writes to a disk.
 */
export async function readArchivedFile({ stream, name, maxBytes }: ReadArchivedFileInput): Promise<ArchivedFile> {
  const source = createByteSource(stream)
  try {
    let longSize: number | null = null
    for (;;) {
      const header = await source.take(BLOCK)
      if (header.length < BLOCK || header.every((byte) => byte === 0)) return refused('it holds no file')
      const entry = parseHeader(header)
      if (entry === null) return refused('a header is broken')
      if (entry.type === 'x' && longSize === null) {
        if (entry.size > MAX_EXTENDED_BYTES) return refused('a header is too long')
        const body = await source.take(padded(entry.size))
        const extended = parseExtended(body.subarray(0, entry.size))
        if (typeof extended === 'string') return refused(extended)
        longSize = extended.size ?? -1
        continue
      }
      if (entry.type !== '0' && entry.type !== '\0') return refused(`its type is ${JSON.stringify(entry.type)}`)
      if (entry.name !== name) return refused('it has another name')
      const size = longSize !== null && longSize >= 0 ? longSize : entry.size
      const bytes = await source.take(Math.min(size, maxBytes))
      if (bytes.length < Math.min(size, maxBytes)) return refused('it ends early')
      return { kind: 'file', bytes, isWhole: size <= maxBytes }
    }
  } finally {
    await source.end()
  }
}

function refused(reason: string): ArchivedFile {
  return { kind: 'refused', reason }
}

function padded(size: number): number {
  return Math.ceil(size / BLOCK) * BLOCK
}

function parseHeader(header: Buffer): { name: string; type: string; size: number } | null {
  const text = (start: number, length: number): string => {
    const field = header.subarray(start, start + length)
    const end = field.indexOf(0)
    return field.subarray(0, end < 0 ? length : end).toString()
  }
  // The checksum treats its own eight bytes as blanks.
  const sum = header.reduce((total, byte, index) => total + (index >= 148 && index < 156 ? 32 : byte), 0)
  if (Number.parseInt(text(148, 8).trim(), 8) !== sum) return null
  const sizeText = text(124, 12).trim()
  // Base-256 sizes are for files beyond 8 GiB without an extended header, which a log never is.
  if (!/^[0-7]*$/.test(sizeText)) return null
  const prefix = text(345, 155)
  const name = text(0, 100)
  return {
    name: prefix === '' ? name : `${prefix}/${name}`,
    type: String.fromCharCode(header[156] ?? 0),
    size: Number.parseInt(sizeText || '0', 8),
  }
}

/** Parses records `LENGTH KEY=VALUE\n`. Times and attributes are ignored; a record that renames, links or maps is refused. */
function parseExtended(body: Buffer): { size: number | null } | string {
  let size: number | null = null
  for (let at = 0; at < body.length; ) {
    const blank = body.indexOf(0x20, at)
    const length = Number(body.subarray(at, blank).toString())
    if (blank < 0 || !Number.isSafeInteger(length) || length <= blank - at + 1 || at + length > body.length) {
      return 'an extended header is broken'
    }
    const record = body.subarray(blank + 1, at + length - 1).toString('latin1')
    const key = record.slice(0, record.indexOf('='))
    if (key === 'size') size = Number(record.slice(record.indexOf('=') + 1))
    if (/^(?:path|linkpath|GNU\.sparse)/.test(key)) return `an extended header sets ${key}`
    if (size !== null && (!Number.isSafeInteger(size) || size < 0)) return 'an extended header is broken'
    at += length
  }
  return { size }
}

interface ByteSource {
  /** Returns exactly `count` bytes, or fewer at the end of the stream. */
  take(count: number): Promise<Buffer>
  /** Stops the sender; the remaining bytes are discarded. */
  end(): Promise<void>
}

function createByteSource(stream: AsyncIterable<Uint8Array | string>): ByteSource {
  const iterator = stream[Symbol.asyncIterator]()
  let chunks: Buffer[] = []
  let held = 0
  return {
    async take(count) {
      while (held < count) {
        const { value, done } = await iterator.next()
        if (done === true) break
        const chunk = Buffer.from(value as Uint8Array)
        chunks.push(chunk)
        held += chunk.length
      }
      const all = Buffer.concat(chunks)
      const taken = all.subarray(0, count)
      chunks = [all.subarray(taken.length)]
      held = all.length - taken.length
      return taken
    },
    async end() {
      await iterator.return?.()
    },
  }
}
