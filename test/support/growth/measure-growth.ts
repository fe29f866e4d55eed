import { Worker } from 'node:worker_threads'

import type { HostileText } from './hostile-texts.ts'

/** Something that reads foreign text. */
export interface Subject {
  name: string
  texts(): HostileText[]
  run(text: string): void
}

export interface Finding {
  name: string
  text: HostileText
  /** Characters at which it cost more than it may. */
  length: number
  /** Null: it did not end. */
  cpuMs: number | null
}

export type Progress =
  | { kind: 'at'; index: number; name: string; text: HostileText }
  | { kind: 'found'; finding: Finding }
  | { kind: 'done' }

export interface MeasureGrowthInput {
  /** A module whose `subjects()` lists what is measured. */
  module: string
  /** @default up to 48,000 characters */
  lengths?: number[]
  /** CPU time that a text of any of the lengths may cost. @default 250 ms: what is linear costs some ms at 48,000 characters */
  limitMs?: number
  /** A text that takes longer, on however slow a machine, does not end. @default 120 s */
  hangMs?: number
}

/** Everything whose cost grows faster than its text, each with the first text that shows it. */
export async function measureGrowth({
  module,
  lengths = [1000, 8000, 48_000],
  limitMs = 250,
  hangMs = 120_000,
}: MeasureGrowthInput): Promise<{ findings: Finding[]; texts: number }> {
  const findings: Finding[] = []
  let texts = 0
  // What does not end takes its thread with it; the next subject gets another.
  for (let from: number | null = 0; from !== null; ) {
    const thread = new Worker(new URL('./growth-thread.ts', import.meta.url), {
      workerData: { module, lengths, limitMs, from },
    })
    try {
      from = await new Promise<number | null>((resolve, reject) => {
        let at: { index: number; name: string; text: HostileText } | null = null
        const giveUp = (): void => {
          if (at === null) return reject(new Error('The thread did not begin'))
          findings.push({ name: at.name, text: at.text, length: lengths.at(-1) ?? 0, cpuMs: null })
          resolve(at.index + 1)
        }
        let watch = setTimeout(giveUp, hangMs)
        thread.on('error', reject)
        thread.on('message', (progress: Progress) => {
          clearTimeout(watch)
          if (progress.kind === 'done') return resolve(null)
          if (progress.kind === 'found') return void findings.push(progress.finding)
          texts += 1
          at = progress
          watch = setTimeout(giveUp, hangMs)
        })
      })
    } finally {
      await thread.terminate()
    }
  }
  return { findings, texts }
}
