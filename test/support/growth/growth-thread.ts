/** Runs in a thread: measures what each subject costs over its hostile texts, and tells before each of them. */
import { parentPort, workerData } from 'node:worker_threads'

import { type HostileText, textOf } from './hostile-texts.ts'
import type { Finding, Progress, Subject } from './measure-growth.ts'

/** The thread's own CPU time, which other work on the machine does not add to. */
function cpuMs(run: () => void): number {
  const before = process.threadCpuUsage()
  run()
  const { user, system } = process.threadCpuUsage(before)
  return (user + system) / 1000
}

const { module, lengths, limitMs, from } = workerData as {
  module: string
  lengths: number[]
  limitMs: number
  from: number
}
const { subjects } = (await import(module)) as { subjects: () => Promise<Subject[]> }
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread's port has none
const tell = (progress: Progress): void => parentPort?.postMessage(progress)

for (const [index, subject] of (await subjects()).entries()) {
  if (index < from) continue
  for (const text of subject.texts()) {
    tell({ kind: 'at', index, name: subject.name, text })
    const found = growthOf(subject, text)
    if (found !== null) {
      tell({ kind: 'found', finding: found })
      break
    }
  }
}
tell({ kind: 'done' })

/** Longer and longer, until it costs too much: what grows with its length alone never does. */
function growthOf({ name, run }: Subject, text: HostileText): Finding | null {
  for (const length of lengths) {
    const long = textOf(text, length)
    let spent = cpuMs(() => run(long))
    // A collection of garbage or a compilation may fall into one measurement, not into three.
    for (let again = 0; again < 2 && spent > limitMs; again += 1)
      spent = Math.min(
        spent,
        cpuMs(() => run(long)),
      )
    if (spent > limitMs) return { name, text, length, cpuMs: Math.round(spent) }
  }
  return null
}
