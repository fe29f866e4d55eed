import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { compareWithCanonical } from './canonical-patch.ts'

const HEAD = 'diff --git a/a b/a\nindex 1234567..89abcde 100644\n--- a/a\n+++ b/a\n'
const compare = (captured: string, canonical: string) =>
  compareWithCanonical(Buffer.from(captured), Buffer.from(canonical))

test('a patch with equal bytes is canonical, also with binary files', () => {
  const binary = `${HEAD}GIT binary patch\nliteral 1\nIcmZPo000310RR91\n\n`
  assert.equal(compare(binary, binary), null)
})

test('hashes of an index line may have any length, and the mode after them counts', () => {
  const patch = `${HEAD}@@ -1 +1 @@\n-x\n+y\n`
  const full = `${'1'.repeat(40)}..${'2'.repeat(40)}`
  assert.equal(compare(patch, patch.replace('1234567..89abcde', full)), null)
  assert.equal(compare(patch, patch.replace('89abcde 100644', '89abcde 100755')), 'patch-not-canonical')
  assert.equal(compare(patch, patch.replace('index', 'similarity')), 'patch-not-canonical')
  assert.equal(compare(patch, patch.replace('index 1234567..89abcde', '')), 'patch-not-canonical')
  assert.equal(compare(patch, patch.replace('diff --git', 'x index 1..2\ndiff --git')), 'patch-not-canonical')
  assert.equal(compare(`x index 1..2\n${patch}`, `x index 1..3\n${patch}`), 'patch-not-canonical')
})

describe('text after @@ may differ at the start of a hunk and nowhere else', () => {
  const WORDS = '@@ -10,2 +20,3 @@ def x():'
  const BARE = '@@ -10,2 +20,3 @@'
  const body = ' a\n+@@ -1 +1 @@ one\n+index 1..2\n b\n'

  test('text after @@ may differ after several digits, and for a hunk of one line on either side', () => {
    assert.equal(compare(`${HEAD}${WORDS}\n${body}`, `${HEAD}${BARE}\n${body}`), null)
    for (const [hunk, lines] of [
      ['@@ -10 +20,12 @@', `-x\n${'+y\n'.repeat(12)}`],
      ['@@ -100,11 +200 @@', `${'-x\n'.repeat(11)}+y\n`],
      ['@@ -0,0 +1 @@', '+y\n'],
      ['@@ -1 +0,0 @@', '-y\n'],
    ]) {
      const rest = `${lines}@@ -300 +300 @@ other\n-p\n+q\n`
      assert.equal(
        compare(`${HEAD}${hunk} words\n${rest}`, `${HEAD}${hunk}\n${rest.replace(' other', '')}`),
        null,
        hunk,
      )
    }
  })

  test('lines of a hunk that look like headers count as they are', () => {
    const patch = `${HEAD}${BARE}\n${body}`
    assert.equal(compare(patch, patch.replace('@@ one', '@@ two')), 'patch-not-canonical')
    assert.equal(compare(patch, patch.replace('+index 1..2', '+index 1..3')), 'patch-not-canonical')
    // A line of context that is an index line: its first character is a blank.
    const context = `${HEAD}@@ -1,3 +1,3 @@\n index 1..2\n-x\n+y\n index 3..4\n`
    assert.equal(compare(context, context.replace('index 1..2', 'index 1..9')), 'patch-not-canonical')
    assert.equal(compare(context, context.replace('index 3..4', 'index 3..9')), 'patch-not-canonical')
  })

  test('a hunk ends when both of its sides are complete', () => {
    // Of one removed and one added line: the next line is a header again, whichever side came last.
    for (const lines of ['-x\n+y\n', '+y\n-x\n', ' x\n']) {
      const one = `${HEAD}@@ -1 +1 @@\n${lines}index 1..2\n`
      assert.equal(compare(one, one.replace('index 1..2', 'index 3..4')), null, lines)
    }
    // One side is still open: what looks like a header is a line of the hunk.
    for (const [hunk, lines] of [
      ['@@ -2 +1,2 @@', '-x\n+y\n'],
      ['@@ -1,2 +2 @@', '-x\n+y\n'],
    ]) {
      const open = `${HEAD}${hunk}\n${lines}index 1..2\n`
      assert.equal(compare(open, open.replace('index 1..2', 'index 3..4')), 'patch-not-canonical', hunk)
    }
  })

  test('text after a line that only ends like the header of a hunk is part of that line', () => {
    const patch = `${HEAD}@@ -1,2 +1,2 @@\n-x +\n-z -\n+y -\n+w \nindex 1..2\n`
    assert.equal(compare(patch, patch.replace('index 1..2', 'index 3..4')), null)
  })

  test('a hunk header in the middle of a line is no header', () => {
    const patch = `${HEAD}x @@ -1 +1 @@ one\n`
    assert.equal(compare(patch, patch.replace('one', 'two')), 'patch-not-canonical')
  })
})

test('a patch with a line more or less is another patch', () => {
  const patch = `${HEAD}@@ -1 +1 @@\n-x\n+y\n`
  assert.equal(compare(`${patch}\n`, patch), 'patch-not-canonical')
  assert.equal(compare(patch, `${patch}\n`), 'patch-not-canonical')
  assert.equal(compare('', patch), 'patch-not-canonical')
})

test('a patch with more binary files than Git makes of it contains text given as binary data', () => {
  const text = `${HEAD}@@ -1 +1 @@\n-x\n+y\n`
  const binary = `${HEAD}GIT binary patch\nliteral 1\nIcmZPo000310RR91\n\n`
  assert.equal(compare(binary, text), 'binary-for-text')
  assert.equal(compare(text, binary), 'patch-not-canonical')
  assert.equal(compare(binary, binary.replace('literal 1', 'literal 2')), 'patch-not-canonical')
})
