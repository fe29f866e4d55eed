/** A thread that parses the texts it receives, one after another. */
import { parentPort } from 'node:worker_threads'

import type { ParseAnswer, ParseTask } from './parser-pool.ts'
import { PARSERS } from './parsers.ts'

const port = parentPort
if (port === null) throw new Error('Expected to run as a thread')

port.on('message', ({ name, input }: ParseTask) => {
  let answer: ParseAnswer
  try {
    answer = { kind: 'parsed', result: (PARSERS[name] as (...input: unknown[]) => unknown)(...input) }
  } catch (error) {
    // A text, a list or a map reached the engine's size limit, which no honest log comes near.
    answer = error instanceof RangeError ? { kind: 'too-large' } : { kind: 'failed', error }
  }
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread's port has none
  port.postMessage(answer)
})
