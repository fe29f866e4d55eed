import { isAscii, isUtf8 } from 'node:buffer'
import { plainJson } from '../../domain/hostile-text.ts'
import {
  answerMembers,
  errorMember,
  BadRequest,
  type GradeLogRequest,
  gradeRequest,
} from '../arguments/grade-log-request.ts'

/** A request longer than this is answered with an error and never held in memory. */
const MAX_LINE_BYTES = 256 * 1024 * 1024
/** Answers are written in chunks of about this size: one write per answer would cost more than the grading. */
const WRITE_CHARACTERS = 64 * 1024

interface GradeBatchInput {
  input: AsyncIterable<Buffer>
  /** Resolves when more may be written. */
  write(text: string): Promise<void>
}

interface GradeBatchResult {
  graded: number
  errors: number
  /** Of the errors, the lines that no harness was asked about. */
  unread: number
}

/** Writes one answer for each non-blank line, in order; a line that cannot be graded is answered with an error. */
export async function gradeBatch({ input, write }: GradeBatchInput): Promise<GradeBatchResult> {
  const counts: GradeBatchResult = { graded: 0, errors: 0, unread: 0 }
  let pending = ''
  let number = 0
  for await (const line of readLines({ input, maxBytes: MAX_LINE_BYTES })) {
    number += 1
    if (line !== null && line.every((byte) => byte === 0x20 || byte === 0x0d || byte === 0x09)) continue
    const { text, isGraded, isRead } = await answerLine(number === 1 ? withoutMark(line) : line, number)
    if (!isRead) counts.unread += 1
    counts[isGraded ? 'graded' : 'errors'] += 1
    pending += plainAnswer(text)
    if (pending.length < WRITE_CHARACTERS) continue
    await write(pending)
    pending = ''
  }
  if (pending !== '') await write(pending)
  return counts
}

/** The search of `plainJson` takes as long as the grading of a log, and most answers hold nothing to find. */
function plainAnswer(text: string): string {
  const isPlain = isAscii(Buffer.from(text)) && !text.includes('\u007f') && !text.includes('##')
  return isPlain ? text : plainJson(text)
}

interface Answer {
  text: string
  isGraded: boolean
  isRead: boolean
}

/** Files from Windows begin with a byte order mark. */
function withoutMark(line: Buffer | null): Buffer | null {
  return line !== null && line.subarray(0, 3).equals(BYTE_ORDER_MARK) ? line.subarray(3) : line
}

const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf])

async function answerLine(line: Buffer | null, number: number): Promise<Answer> {
  let id: unknown
  try {
    const request = parseLine(line, number)
    id = request.id
    const result = await gradeRequest(request)
    return { text: `{"id":${idText(id)},${answerMembers(result)}}\n`, isGraded: result.kind === 'graded', isRead: true }
  } catch (error) {
    const message = error instanceof BadRequest ? error.message : `unexpected ${String(error)}`
    return { text: `{"id":${idText(id)},${errorMember(message)}}\n`, isGraded: false, isRead: false }
  }
}

function parseLine(line: Buffer | null, number: number): GradeLogRequest {
  if (line === null) throw new BadRequest(`line ${number} is longer than ${MAX_LINE_BYTES} bytes`)
  if (!isUtf8(line)) throw new BadRequest(`line ${number} is not UTF-8`)
  let value: unknown
  try {
    value = JSON.parse(line.toString('utf8'))
  } catch {
    throw new BadRequest(`line ${number} is not JSON`)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new BadRequest(`line ${number} is not an object`)
  }
  return value
}

/** The id as it was given; null if the line has none. */
function idText(id: unknown): string {
  return JSON.stringify(id) ?? 'null'
}

const LINE_END = 0x0a

interface ReadLinesInput {
  input: AsyncIterable<Buffer>
  /** Of one line, without its line feed. */
  maxBytes: number
}

/** Yields the lines of a stream as bytes, without line feeds; null for a line over the limit, which bounds the memory. */
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
