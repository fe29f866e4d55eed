import type { Duplex } from 'node:stream'

import { LonghaulError } from '../../../contracts/errors.ts'
import { MAX_LOG_BYTES } from '../../artifacts/stored-log.ts'
import { createDemultiplexer } from '../engine/exec-stream.ts'

/** Limit for two logs and the lines between them. */
const MAX_ANSWER_BYTES = 2 * MAX_LOG_BYTES + 4096
/** Limit for the patch, the output of `audit.py` and the last lines of errors, each of which is truncated inside the container. */
const MAX_AUDIT_BYTES = 2 * 16 * 1024 * 1024 + 8192
/** Limit for output before an answer. The main process itself writes nothing then. Only graded code does, and it could keep this
 *  process busy for as long as it runs. */
const MAX_STRAY_BYTES = 1024 * 1024

export interface GradingAnswer {
  /** Kind, exit code and, if the kernel reports it, bytes of memory. */
  words: string[]
  log: Buffer
  /** Standard error if it was captured separately, otherwise empty. */
  errors: Buffer
  /** When the answer was complete, by a monotonic clock of this process. No clock in the container is trusted. */
  atMs: number
}

export interface AuditOutput {
  /** The kind. */
  words: string[]
  patch: Buffer
  result: Buffer
  errors: Buffer
  /** As in `GradingAnswer`. */
  atMs: number
}

/** Returns the answer once it is complete. */
export type AnswerReader<T> = (payload: Buffer) => T | 'too-long' | null

export interface AnswerStream<T> {
  /** Null if the process or the connection ended before the answer was complete. */
  answer: Promise<T | null>
  close(): void
}

/** Writes the input of a grading to its first process and reads what that prints. */
export function answerOn<T>(socket: Duplex, input: string, read: AnswerReader<T>): AnswerStream<T> {
  const { promise: answer, resolve, reject } = Promise.withResolvers<T | null>()
  const demultiplex = createDemultiplexer((kind, payload) => {
    if (kind === 'stderr') return
    const output = read(payload)
    if (output === 'too-long') reject(endedByTests('The grading container sent more output than its logs may hold'))
    else if (output !== null) resolve(output)
  })
  socket.on('data', demultiplex)
  for (const event of ['end', 'close', 'error']) socket.on(event, () => resolve(null))
  socket.write(input)
  return { answer, close: () => void socket.destroy() }
}

/** Finds the answer of the official steps in the main process's output. */
export function createGradeReader(mark: string): AnswerReader<GradingAnswer> {
  const readParts = createPartsReader({ mark, parts: 2, maxBytes: MAX_ANSWER_BYTES })
  return (payload) => {
    const found = readParts(payload)
    if (found === null || found === 'too-long') return found
    const [log = NOTHING, errors = NOTHING] = found.parts
    return { words: found.words, log, errors, atMs: performance.now() }
  }
}

/** The same for the answer of an audit. */
export function createAuditReader(mark: string): AnswerReader<AuditOutput> {
  const readParts = createPartsReader({ mark, parts: 3, maxBytes: MAX_AUDIT_BYTES })
  return (payload) => {
    const found = readParts(payload)
    if (found === null || found === 'too-long') return found
    const [patch = NOTHING, result = NOTHING, errors = NOTHING] = found.parts
    return { words: found.words, patch, result, errors, atMs: performance.now() }
  }
}

const NOTHING = Buffer.alloc(0)

interface Parts {
  words: string[]
  parts: Buffer[]
}

/**
 * Reads a line with the mark and some words, then each part followed by a line with the mark. The evaluation is hostile code that may
 * write to the same stream. It does not know the mark, and it is killed before the mark is written. Earlier output is discarded.
 */
function createPartsReader({ mark, parts, maxBytes }: { mark: string; parts: number; maxBytes: number }) {
  const head = Buffer.from(`\nlh1 ${mark} `)
  const tail = Buffer.from(`\nlh1 ${mark}\n`)
  let chunks: Buffer[] = []
  let bytes = 0
  let stray = 0
  let begun = false
  let ends = 0
  return (payload: Buffer): Parts | 'too-long' | null => {
    // A payload boundary may split a mark, so the end of the earlier payloads is searched again.
    const [seam, joined] = begun ? seamOf(chunks, payload, tail.length - 1) : [0, Buffer.concat([...chunks, payload])]
    if (!begun) {
      const start = joined.indexOf(head)
      begun = start !== -1
      chunks = [joined.subarray(begun ? start : Math.max(0, joined.length - head.length))]
      bytes = chunks[0]?.length ?? 0
      if (begun) ends = count(chunks[0] ?? NOTHING, tail, 0)
      else if ((stray += payload.length) > MAX_STRAY_BYTES) return 'too-long'
    } else {
      chunks.push(payload)
      bytes += payload.length
      ends += count(joined, tail, seam)
    }
    if (ends >= parts) return split(Buffer.concat(chunks), { head, tail, parts })
    return bytes > maxBytes ? 'too-long' : null
  }
}

/** Returns the last `wanted` bytes of the earlier payloads, joined with the new payload. */
function seamOf(chunks: readonly Buffer[], payload: Buffer, wanted: number): [seam: number, joined: Buffer] {
  let before: Buffer = NOTHING
  for (const chunk of chunks.toReversed()) {
    if (before.length >= wanted) break
    before = Buffer.concat([chunk.subarray(Math.max(0, chunk.length - (wanted - before.length))), before])
  }
  return [before.length, Buffer.concat([before, payload])]
}

/** Counts the occurrences of `what` that end after `from`. */
function count(text: Buffer, what: Buffer, from: number): number {
  let found = 0
  for (let at = text.indexOf(what); at !== -1; at = text.indexOf(what, at + what.length)) {
    if (at + what.length > from) found += 1
  }
  return found
}

function split(answer: Buffer, { head, tail, parts }: { head: Buffer; tail: Buffer; parts: number }): Parts {
  const lineEnd = answer.indexOf('\n', head.length)
  const found: Buffer[] = []
  let from = lineEnd + 1
  for (let part = 0; part < parts; part++) {
    const end = answer.indexOf(tail, from)
    found.push(answer.subarray(from, end))
    from = end + tail.length
  }
  return {
    words: answer.subarray(head.length, lineEnd).toString().trim().split(' '),
    parts: found,
  }
}

/** Graded code runs as root beside the reporter, so code that kills or floods the reporter ends its own grading. */
export function endedByTests(message: string): LonghaulError {
  return new LonghaulError({ code: 'Grading.Ended', message })
}

export function failed(message: string): LonghaulError {
  return new LonghaulError({ code: 'Grading.Failed', message })
}
