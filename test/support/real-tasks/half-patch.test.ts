import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { halfPatch } from './half-patch.ts'

function applied(t: { after(undo: () => void): void }, before: string, after: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-half-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const git = (...args: string[]): string => execFileSync('git', ['-C', folder, ...args], { encoding: 'utf8' })
  git('init', '-q')
  writeFileSync(join(folder, 'a'), before)
  git('add', 'a')
  writeFileSync(join(folder, 'a'), after)
  const half = halfPatch(git('diff'))
  git('checkout', '-q', '--', 'a')
  execFileSync('git', ['-C', folder, 'apply', '-'], { input: half })
  return readFileSync(join(folder, 'a'), 'utf8')
}

const lines = (from: number, to: number): string =>
  Array.from({ length: to - from + 1 }, (_, at) => `${from + at}\n`).join('')

test('keeps the first of two hunks', (t) => {
  const half = applied(t, lines(1, 40), `${lines(1, 4)}new\n${lines(5, 35)}late\n${lines(36, 40)}`)
  assert.equal(half, `${lines(1, 4)}new\n${lines(5, 40)}`)
})

test('keeps the first half of the changed lines of one hunk', (t) => {
  const half = applied(t, lines(1, 9), `${lines(1, 4)}a\nb\nc\nd\n${lines(7, 9)}`)
  assert.equal(half, `${lines(1, 4)}a\n${lines(7, 9)}`)
})

test('gives an empty half for a patch of one changed line', () => {
  assert.equal(
    halfPatch('diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,2 +1,3 @@\n 1\n+new\n 2\n').includes('+new'),
    false,
  )
})
