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

/** Parsing took more time or memory than honest text takes: the fault of the text's author, not of the infrastructure. */
export class ParserOverrun extends Error {}

export interface ParserPoolOptions {
  /** Texts that are parsed at once. @default 2 */
  threads?: number
  /** Of one text. Parsers take time in proportion to it: a log of the greatest length is read in a second or two.
   *  @default 60 s */
  deadlineMs?: number
  /** Of one thread: its objects, not the input as it was sent. @default 256 MiB */
  memoryMiB?: number
}

export interface ParserPool {
  /** Parses in a thread: the event loop goes on, and what does not end or has no end is ended with its thread.
   *  @throws ParserOverrun, or what the parser throws */
  parse<Name extends ParserName>(name: Name, ...input: Parameters<Parsers[Name]>): Promise<ReturnType<Parsers[Name]>>
  dispose(): Promise<void>
}

/** Threads are started when needed and kept; a thread that has read a long text is replaced, for its memory would stay. */
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
    // One that dies while it waits is not asked again.
    thread.on('exit', () => idle.delete(thread))
    return thread
  }
  const take = async (): Promise<Worker> => {
    while (running.size >= threads) await new Promise<void>((resolve) => waiting.push(resolve))
    if (disposed) throw new Error('The parsers were disposed of')
    const thread = idle.values().next().value ?? started()
    idle.delete(thread)
    running.add(thread)
    // While it is at work the process waits for it.
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
        if (answer.kind === 'too-large') throw overrun(`more than a text or a list may hold`)
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

/** After a longer text a thread is replaced. */
const LONG_BYTES = 8 * 1024 * 1024

function startThread(memoryMiB: number): Worker {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  const thread = new Worker(new URL(`./parse-thread.${extension}`, import.meta.url), {
    resourceLimits: { maxOldGenerationSizeMb: memoryMiB, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 },
  })
  // Without a listener the error of an idle thread would end the process.
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
    const timer = setTimeout(() => end(overrun(`not read within ${deadlineMs / 1000} s`)), deadlineMs)
    const onMessage = (answer: ParseAnswer): void => {
      stop()
      resolve(answer)
    }
    const onError = (error: NodeJS.ErrnoException): void =>
      end(error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? overrun(`more than ${memoryMiB} MiB`) : error)
    const onExit = (): void => end(new Error(`A thread ended while it read foreign text (${task.name})`))
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
  return new ParserOverrun(`Reading foreign text took too much: ${what}`)
}

/** The task with a copy of each array of bytes: sent as they are, the whole memory behind them would go along. */
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

/** By the threads of this process. @throws ParserOverrun, or what the parser throws */
export const parse: ParserPool['parse'] = (name, ...input) => {
  shared ??= createParserPool()
  return shared.parse(name, ...input)
}
