import { MAX_LINE_BYTES, MAX_STATE_BYTES, type RunnerReply, isKnownReply, sizeOfReply } from './runner-wire.ts'

/** Why what a runner sent is no answer. */
export type ReplyRefusal =
  | 'no mark'
  | 'a word is unknown'
  | 'a line is too long'
  | 'a length is no number'
  | 'the state is too long'
  | 'the body is too long'

export interface ReplyReader {
  /** Calls `onReply` with each answer that is whole now.
   *  @returns null, or why the stream is of no use any more */
  push(payload: Buffer, onReply: (reply: RunnerReply) => void): ReplyRefusal | null
  /** How long the body of what comes next may be. @default 0 */
  allow(maxBodyBytes: number): void
}

/** Two lines of an answer whose length nothing announces. */
const MAX_UNANNOUNCED_BYTES = 2 * (MAX_LINE_BYTES + 1)

/**
 * Collects payloads until an answer is complete. Commands never write to this stream, but processes that run as root in the sandbox
 * can. So lengths are compared with the request before a byte is buffered: a hostile runner costs the worker no more memory
 * than an honest one, in one buffer, however small its payloads are.
 */
export function createReplyReader(): ReplyReader {
  let buffer = Buffer.alloc(0)
  let length = 0
  let needed = 0
  let maxBodyBytes = 0
  let lastState: Buffer = Buffer.alloc(0)

  const hold = (payload: Buffer): void => {
    if (length + payload.length > buffer.length) {
      const larger = Buffer.allocUnsafe(
        Math.max(needed, length + payload.length, Math.min(2 * buffer.length, MAX_UNANNOUNCED_BYTES)),
      )
      buffer.copy(larger, 0, 0, length)
      buffer = larger
    }
    payload.copy(buffer, length)
    length += payload.length
  }

  return {
    allow(bytes) {
      maxBodyBytes = bytes
    },
    push(payload, onReply) {
      hold(payload)
      while (length >= needed && length > 0) {
        const parsed = parseReply({ buffer: buffer.subarray(0, length), lastState, maxBodyBytes })
        if (typeof parsed === 'string') return parsed
        if (typeof parsed === 'number') {
          needed = parsed
          return null
        }
        const { reply, bytes } = parsed
        const rest = Buffer.from(buffer.subarray(bytes, length))
        buffer = rest
        length = rest.length
        needed = 0
        if (reply.state.length > 0) lastState = reply.state
        onReply(reply)
      }
      return null
    },
  }
}

interface ParseReplyInput {
  buffer: Buffer
  lastState: Buffer
  maxBodyBytes: number
}

/** A whole answer, or how many bytes are needed before another look is worth it. */
function parseReply({
  buffer,
  lastState,
  maxBodyBytes,
}: ParseReplyInput): { reply: RunnerReply; bytes: number } | number | ReplyRefusal {
  const head = takeLine(buffer, 0)
  if (typeof head !== 'object') return head
  const [mark, id = '', ...words] = head.text.split(' ')
  if (mark !== 'lh1') return 'no mark'
  const { lines, stateBytes, bodyBytes } = sizeOfReply(words)
  if (!isCount(stateBytes ?? 0) || !isCount(bodyBytes)) return 'a length is no number'
  if (!isKnownReply(words)) return 'a word is unknown'
  if ((stateBytes ?? 0) > MAX_STATE_BYTES) return 'the state is too long'
  if (bodyBytes > maxBodyBytes) return 'the body is too long'
  const open = lines === 1 ? takeLine(buffer, head.end) : { text: '', end: head.end }
  if (typeof open !== 'object') return open
  const bodyStart = open.end + (stateBytes ?? 0)
  const total = bodyStart + bodyBytes
  if (buffer.length < total) return total
  const state = stateBytes === null ? lastState : Buffer.from(buffer.subarray(open.end, bodyStart))
  return {
    reply: { id, words, openFile: open.text, state, body: Buffer.from(buffer.subarray(bodyStart, total)) },
    bytes: total,
  }
}

/** The line that begins there, without its end; or how many bytes are needed before another look is worth it. */
function takeLine(buffer: Buffer, start: number): { text: string; end: number } | number | 'a line is too long' {
  const end = buffer.subarray(start, start + MAX_LINE_BYTES + 1).indexOf('\n')
  if (end >= 0) return { text: buffer.subarray(start, start + end).toString(), end: start + end + 1 }
  return buffer.length - start > MAX_LINE_BYTES ? 'a line is too long' : buffer.length + 1
}

function isCount(number: number): boolean {
  return Number.isSafeInteger(number) && number >= 0
}
