import { Worker } from 'node:worker_threads'

import type { ParserName, Parsers } from './parsers.ts'

export interface ParseTask {
  name: ParserName
  input: unknown[]
}

export type ParseAnswer =
  | { kind: 'parsed'; result: unknown }
  | { kind: 'too-large' }
  | { kind: 'failed'; error: unknown }

/** Parsing took more time or memory than honest text needs. The author of the text is at fault, not the infrastructure. */
export class ParserOverrun extends Error {}

export interface ParserPoolOptions {
  /** Maximum number of texts that are parsed concurrently. @default 2 */
  threads?: number
  /** Limit per text. Parse time is proportional to length, and a log of the maximum length takes a second or two.
   *  @default 60 s */
  deadlineMs?: number
  /** Limit per thread for its objects, not counting the input. @default 256 MiB */
  memoryMiB?: number
}

export interface ParserPool {
  /** Parses in a thread. The event loop stays free, and a parse that exceeds a limit is killed with its thread.
   *  @throws ParserOverrun, or the parser's own error */
  parse<Name extends ParserName>(name: Name, ...input: Parameters<Parsers[Name]>): Promise<ReturnType<Parsers[Name]>>
  dispose(): Promise<void>
}

/** Creates a pool that starts threads on demand and keeps them. A thread that has read a long text is replaced, because it would
 *  keep the memory. */
export function createParserPool({
  threads = 2,
  deadlineMs = 60_000,
  memoryMiB = 256,
}: ParserPoolOptions = {}): ParserPool {
  const idle = new Set<Worker>()
  const running = new Set<Worker>()
  const waiting: (() => void)[] = []
  let disposed = false

  const started = (): Worker => {
    const thread = startThread(memoryMiB)
    // A thread that dies while idle is not used again.
    thread.on('exit', () => idle.delete(thread))
    return thread
  }
  const take = async (): Promise<Worker> => {
    while (running.size >= threads) await new Promise<void>((resolve) => waiting.push(resolve))
    if (disposed) throw new Error('The parser pool is closed')
    const thread = idle.values().next().value ?? started()
    idle.delete(thread)
    running.add(thread)
    // The process must not exit while the thread works.
    thread.ref()
    return thread
  }

  return {
    async parse(name, ...input) {
      const thread = await take()
      let mayStay = false
      try {
        const { task, transfer, bytes } = ownCopy(name, input)
        const answer = await answerOf(thread, { task, transfer, deadlineMs, memoryMiB })
        mayStay = bytes < LONG_BYTES
        if (answer.kind === 'too-large') throw overrun(`a text or a list grew too large`)
        if (answer.kind === 'failed') throw answer.error
        return answer.result as ReturnType<Parsers[typeof name]>
      } finally {
        running.delete(thread)
        if (mayStay && !disposed) {
          thread.unref()
          idle.add(thread)
        } else void thread.terminate()
        waiting.shift()?.()
      }
    },
    async dispose() {
      disposed = true
      await Promise.all([...idle, ...running].map((thread) => thread.terminate()))
    },
  }
}

/** A thread that has read a longer text is replaced. */
const LONG_BYTES = 8 * 1024 * 1024

function startThread(memoryMiB: number): Worker {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  const thread = new Worker(new URL(`./parse-thread.${extension}`, import.meta.url), {
    resourceLimits: { maxOldGenerationSizeMb: memoryMiB, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 },
  })
  // Without a listener, an error of an idle thread would end the process.
  thread.on('error', () => undefined)
  return thread
}

interface AnswerInput {
  task: ParseTask
  transfer: ArrayBuffer[]
  deadlineMs: number
  memoryMiB: number
}

function answerOf(thread: Worker, { task, transfer, deadlineMs, memoryMiB }: AnswerInput): Promise<ParseAnswer> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => end(overrun(`not parsed within ${deadlineMs / 1000} s`)), deadlineMs)
    const onMessage = (answer: ParseAnswer): void => {
      stop()
      resolve(answer)
    }
    const onError = (error: NodeJS.ErrnoException): void =>
      end(error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? overrun(`more than ${memoryMiB} MiB`) : error)
    const onExit = (): void => end(new Error(`A thread ended while it parsed untrusted text (${task.name})`))
    const stop = (): void => {
      clearTimeout(timer)
      thread.off('message', onMessage).off('error', onError).off('exit', onExit)
    }
    const end = (error: Error): void => {
      stop()
      reject(error)
    }
    thread.on('message', onMessage).on('error', onError).on('exit', onExit)
    thread.postMessage(task, transfer)
  })
}

function overrun(what: string): ParserOverrun {
  return new ParserOverrun(`Parsing untrusted text exceeded a limit: ${what}`)
}

/** Copies each byte array of the task, because sending it directly would send the whole buffer behind it. */
function ownCopy(name: ParserName, input: unknown[]): { task: ParseTask; transfer: ArrayBuffer[]; bytes: number } {
  const transfer: ArrayBuffer[] = []
  let bytes = 0
  const copied = (value: unknown, depth: number): unknown => {
    if (value instanceof Uint8Array) {
      const copy = new Uint8Array(value)
      transfer.push(copy.buffer)
      bytes += copy.byteLength
      return copy
    }
    if (typeof value === 'string') bytes += value.length
    if (typeof value !== 'object' || value === null || depth === 0) return value
    if (Array.isArray(value)) return value.map((one) => copied(one, depth - 1))
    if (Object.getPrototypeOf(value) !== Object.prototype) return value
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, copied(one, depth - 1)]))
  }
  return { task: { name, input: input.map((one) => copied(one, 4)) }, transfer, bytes }
}

let shared: ParserPool | undefined

/** Parses in the threads of this process. @throws ParserOverrun, or the parser's own error */
export const parse: ParserPool['parse'] = (name, ...input) => {
  shared ??= createParserPool()
  return shared.parse(name, ...input)
}
