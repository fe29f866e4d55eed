/**
 * `node run-leaves.ts FILE TITLE`: runs the tests of that title in that file, below the current folder, with Node's runner as
 * `npm test` does, and prints a line of JSON for each test that is no suite. A process of its own, because a runner inside a
 * runner runs nothing.
 */
import { run } from 'node:test'

export interface Leaf {
  title: string
  end: 'passed' | 'failed' | 'skipped'
  /** Why it failed or was skipped. */
  why: string
  /** Of a failure: `testCodeFailure` is the test's own, all others are something around it. */
  kind: string | null
}

if (import.meta.main) {
  const [file = '', title = ''] = process.argv.slice(2)
  const stream = run({
    cwd: process.cwd(),
    files: [file],
    testNamePatterns: [new RegExp(title.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'))],
  })
  const say = (leaf: Leaf): void => console.log(JSON.stringify(leaf))
  stream.on('test:pass', ({ name, details, skip }) => {
    if (details.type === 'suite') return
    if (skip === undefined) say({ title: name, end: 'passed', why: '', kind: null })
    else say({ title: name, end: 'skipped', why: String(skip), kind: null })
  })
  stream.on('test:fail', ({ name, details }) => {
    const error = details.error as Error & { failureType?: string }
    const cause = error.cause instanceof Error ? error.cause.message : error.message
    say({ title: name, end: 'failed', why: cause, kind: error.failureType ?? null })
  })
  // Nothing flows until it is read.
  stream.resume()
}
