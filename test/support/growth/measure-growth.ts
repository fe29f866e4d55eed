import { Worker } from 'node:worker_threads'

import type { HostileText } from './hostile-texts.ts'

/** Code that reads foreign text. */
export interface Subject {
  name: string
  texts(): HostileText[]
  run(text: string): void
}

export interface Finding {
  name: string
  text: HostileText
  /** Number of characters at which the cost exceeded the limit. */
  length: number
  /** Null if the measurement did not end. */
  cpuMs: number | null
}

export type Progress = { kind: 'found'; finding: Finding } | { kind: 'done' }

/** The thread's position, in shared memory: a message for each of a hundred thousand texts would cost more than the texts. */
export const PLACE = { subject: 0, text: 1, count: 2 } as const

export interface MeasureGrowthInput {
  /** A module whose `subjects()` lists the measured code. */
  module: string
  /** @default up to 48,000 characters */
  lengths?: number[]
  /** CPU time that a text of any of these lengths may cost. @default 250 ms: linear code costs a few ms at 48,000 characters */
  limitMs?: number
  /** A text that takes longer, even on a slow machine, counts as endless. @default 120 s */
  hangMs?: number
}

const LOOK_MS = 1000

/** All subjects whose cost grows faster than their text, each with the first text that shows it. */
export async function measureGrowth({
  module,
  lengths = [1000, 8000, 48_000],
  limitMs = 250,
  hangMs = 120_000,
}: MeasureGrowthInput): Promise<{ findings: Finding[]; texts: number }> {
  const findings: Finding[] = []
  const place = new Int32Array(new SharedArrayBuffer(Object.keys(PLACE).length * 4))
  // An endless subject ends with its thread; the next subject gets a new one.
  for (let from: number | null = 0; from !== null; ) {
    const thread = new Worker(new URL('./growth-thread.ts', import.meta.url), {
      workerData: { module, lengths, limitMs, from, place },
    })
    let watch: NodeJS.Timeout | undefined
    try {
      const stuck = await new Promise<{ subject: number; text: number } | null>((resolve, reject) => {
        let seen = -1
        let sinceMs = performance.now()
        watch = setInterval(() => {
          const count = Atomics.load(place, PLACE.count)
          if (count !== seen) {
            seen = count
            sinceMs = performance.now()
          } else if (performance.now() - sinceMs > hangMs) {
            resolve({ subject: Atomics.load(place, PLACE.subject), text: Atomics.load(place, PLACE.text) })
          }
        }, LOOK_MS)
        thread.on('error', reject)
        thread.on('message', (progress: Progress) => {
          if (progress.kind === 'done') resolve(null)
          else findings.push(progress.finding)
        })
      })
      from = stuck === null ? null : stuck.subject + 1
      if (stuck !== null) findings.push(await endless(module, stuck, lengths.at(-1) ?? 0))
    } finally {
      clearInterval(watch)
      await thread.terminate()
    }
  }
  return { findings, texts: Atomics.load(place, PLACE.count) }
}

/** @throws if the thread hung before it reached a text */
async function endless(module: string, at: { subject: number; text: number }, length: number): Promise<Finding> {
  const { subjects } = (await import(module)) as { subjects: () => Promise<Subject[]> }
  const subject = (await subjects())[at.subject]
  const text = subject?.texts()[at.text]
  if (subject === undefined || text === undefined) throw new Error('The thread did not begin')
  return { name: subject.name, text, length, cpuMs: null }
}
