const LINE_END = 0x0a

export interface ReadLinesInput {
  input: AsyncIterable<Buffer>
  /** Of one line, without its end. */
  maxBytes: number
}

/** Lines of a stream as bytes, without their ends; null for one that is too long, of which no more than that is held. */
export async function* readLines({ input, maxBytes }: ReadLinesInput): AsyncGenerator<Buffer | null> {
  let parts: Buffer[] = []
  let length = 0
  const add = (part: Buffer): void => {
    length += part.length
    if (length <= maxBytes) parts.push(part)
    else parts = []
  }
  const take = (): Buffer | null => {
    const line = length > maxBytes ? null : parts.length === 1 ? (parts[0] ?? null) : Buffer.concat(parts)
    parts = []
    length = 0
    return line
  }
  for await (const chunk of input) {
    let from = 0
    for (let end = chunk.indexOf(LINE_END); end >= 0; end = chunk.indexOf(LINE_END, from)) {
      add(chunk.subarray(from, end))
      from = end + 1
      yield take()
    }
    if (from < chunk.length) add(chunk.subarray(from))
  }
  if (length > 0) yield take()
}
