import type { Duplex } from 'node:stream'

import type { Container } from 'dockerode'

import { LonghaulError } from '../../contracts/errors.ts'
import { attach, createDemultiplexer } from './exec-stream.ts'

/** Test logs are text of a few MB. What floods it is cut: its end marker is gone then, so it proves nothing. */
export const MAX_LOG_BYTES = 64 * 1024 * 1024
/** Two logs and what stands between them. */
const MAX_ANSWER_BYTES = 2 * MAX_LOG_BYTES + 4096

export interface GradeOutput {
  /** Kind, exit code, milliseconds and, where the kernel tells, bytes of memory. */
  words: string[]
  log: Buffer
  /** Standard error where it was kept apart, else empty. */
  errors: Buffer
}

export interface GradingStream {
  /** Null where the container ended, or the connection, before the answer was whole. */
  answer: Promise<GradeOutput | null>
  close(): void
}

/** Attaches to a grading container that is about to start, and gives it its input.
 *  @param mark as in `encodeGradeInput` */
export async function attachGrading(container: Container, input: string, mark: string): Promise<GradingStream> {
  const socket: Duplex = await attach(container)
  const { promise: answer, resolve, reject } = Promise.withResolvers<GradeOutput | null>()
  const reader = createGradeReader(mark)
  const demultiplex = createDemultiplexer((kind, payload) => {
    if (kind === 'stderr') return
    const output = reader(payload)
    if (output === 'too-long') reject(failed('The grading container sent more than its logs may hold'))
    else if (output !== null) resolve(output)
  })
  socket.on('data', demultiplex)
  for (const event of ['end', 'close', 'error']) socket.on(event, () => resolve(null))
  socket.write(input)
  return { answer, close: () => void socket.destroy() }
}

/**
 * Finds the answer in what the main process writes: a line with the mark and the result, then each log with a line of the mark
 * behind it. The evaluation is hostile code that may write to the same stream, but it does not know the mark, and it is ended before
 * the mark is written: what comes earlier is not kept.
 */
export function createGradeReader(mark: string): (payload: Buffer) => GradeOutput | 'too-long' | null {
  const head = Buffer.from(`\nlh1 ${mark} `)
  const tail = Buffer.from(`\nlh1 ${mark}\n`)
  let chunks: Buffer[] = []
  let bytes = 0
  let begun = false
  return (payload) => {
    chunks.push(payload)
    if (!begun) {
      const seen = Buffer.concat(chunks)
      const start = seen.indexOf(head)
      begun = start !== -1
      chunks = [seen.subarray(begun ? start : Math.max(0, seen.length - head.length))]
      bytes = chunks[0]?.length ?? 0
    } else {
      bytes += payload.length
    }
    if (!begun || !endsWith(chunks, tail)) return bytes > MAX_ANSWER_BYTES ? 'too-long' : null
    return parse(Buffer.concat(chunks), head, tail)
  }
}

function endsWith(chunks: readonly Buffer[], tail: Buffer): boolean {
  let last = Buffer.alloc(0)
  for (const chunk of chunks.toReversed()) {
    last = Buffer.concat([chunk.subarray(-tail.length), last])
    if (last.length >= tail.length) break
  }
  return last.subarray(-tail.length).equals(tail)
}

/** Null as long as the second log is missing. */
function parse(answer: Buffer, head: Buffer, tail: Buffer): GradeOutput | null {
  const lineEnd = answer.indexOf('\n', head.length)
  const logEnd = answer.indexOf(tail, lineEnd)
  if (lineEnd === -1 || logEnd + tail.length === answer.length) return null
  return {
    words: answer.subarray(head.length, lineEnd).toString().trim().split(' '),
    log: answer.subarray(lineEnd + 1, logEnd),
    errors: answer.subarray(logEnd + tail.length, answer.length - tail.length),
  }
}

export function failed(message: string): LonghaulError {
  return new LonghaulError({ code: 'Grading.Failed', message })
}
