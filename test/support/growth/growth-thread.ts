/** Runs in a thread: measures the cost of each subject for its hostile texts, and publishes its position before each of them. */
import { parentPort, workerData } from 'node:worker_threads'

import { type HostileText, textOf } from './hostile-texts.ts'
import { PLACE, type Finding, type Progress, type Subject } from './measure-growth.ts'

/** A machine may be this much slower than the one for which the limit was set. Nothing linear takes longer than that. */
const SLOWEST_MACHINE = 4

/** The thread's own CPU time, which other work on the machine does not increase. */
function cpuMs(run: () => void): number {
  const before = process.threadCpuUsage()
  run()
  const { user, system } = process.threadCpuUsage(before)
  return (user + system) / 1000
}

const { module, lengths, limitMs, from, place } = workerData as {
  module: string
  lengths: number[]
  limitMs: number
  from: number
  place: Int32Array
}
const { subjects } = (await import(module)) as { subjects: () => Promise<Subject[]> }
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread's port has none
const tell = (progress: Progress): void => parentPort?.postMessage(progress)

for (const [index, subject] of (await subjects()).entries()) {
  if (index < from) continue
  Atomics.store(place, PLACE.subject, index)
  for (const [number, text] of subject.texts().entries()) {
    Atomics.store(place, PLACE.text, number)
    Atomics.add(place, PLACE.count, 1)
    const finding = growthOf(subject, text)
    if (finding !== null) {
      tell({ kind: 'found', finding })
      break
    }
  }
}
tell({ kind: 'done' })

/** Uses longer and longer texts until one costs too much; a linear reader never reaches the limit. */
function growthOf({ name, run }: Subject, text: HostileText): Finding | null {
  for (const length of lengths) {
    const long = textOf(text, length)
    const spent = leastCpuMs(() => run(long), limitMs)
    if (spent <= limitMs) continue
    if (spent <= limitMs * SLOWEST_MACHINE) {
      const short = textOf(text, length / 4)
      // Four times the text takes a linear reader four times as long, and a quadratic one sixteen times.
      if (spent < 8 * leastCpuMs(() => run(short), 0)) continue
    }
    return { name, text, length, cpuMs: Math.round(spent) }
  }
  return null
}

/** A garbage collection or a compilation may fall into one measurement, but not into three. */
function leastCpuMs(run: () => void, enoughMs: number): number {
  let least = cpuMs(run)
  for (let again = 0; again < 2 && least > enoughMs; again += 1) least = Math.min(least, cpuMs(run))
  return least
}
