import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createFakeClock } from '../../../test/support/fake-clock.ts'
import type { Console } from './console.ts'
import { whileReporting } from './live-lines.ts'

function logOf(): { console: Console; lines: string[] } {
  const lines: string[] = []
  const unexpected = (): never => assert.fail('progress goes to stderr')
  return {
    lines,
    console: {
      out: unexpected,
      record: unexpected,
      command: unexpected,
      err: (text) => void lines.push(text),
      terminal: null,
    },
  }
}

test('work of minutes whose count stands still: a line every 30 seconds; work that ends at once says nothing', async () => {
  const clock = createFakeClock()
  const { console, lines } = logOf()
  const what = (): string => 'images 3 of 12'
  await whileReporting({ console, what, clock }, async () => clock.pass(1_500))
  assert.deepEqual(lines, [])
  await whileReporting({ console, what, clock }, async () => clock.pass(95_000))
  assert.deepEqual(lines, [
    '  0:02  images 3 of 12',
    '  0:32  images 3 of 12',
    '  1:02  images 3 of 12',
    '  1:32  images 3 of 12',
  ])
})

test('work that fails: its error comes out, and nothing is said after it', async () => {
  const clock = createFakeClock()
  const { console, lines } = logOf()
  const work = async (): Promise<never> => {
    clock.pass(5_000)
    throw new Error('the disk is full')
  }
  await assert.rejects(whileReporting({ console, what: () => 'writing', clock }, work), /the disk is full/)
  clock.pass(120_000)
  assert.deepEqual(lines, ['  0:02  writing'])
})

test('what the work says itself comes at once, between the lines of how far it is', async () => {
  const clock = createFakeClock()
  const { console, lines } = logOf()
  let built = 0
  await whileReporting({ console, what: () => `images ${built} of 2`, clock }, async ({ note, changed }) => {
    clock.pass(3_000)
    note('a: built')
    built = 1
    changed()
    clock.pass(12_000)
  })
  assert.deepEqual(lines, ['  0:02  images 0 of 2', 'a: built', '  0:12  images 1 of 2'])
})
