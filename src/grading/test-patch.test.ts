import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isLonghaulError } from '../contracts/errors.ts'
import { readPatchedFiles } from './test-patch.ts'

const MIXED = `diff --git a/tests/test_old.py b/tests/test_old.py
index 1111111..2222222 100644
--- a/tests/test_old.py
+++ b/tests/test_old.py
@@ -1,2 +1,3 @@
 import x
+--- not a header
 y = 1
diff --git a/tests/test_new.py b/tests/test_new.py
new file mode 100644
index 0000000..3333333
--- /dev/null
+++ b/tests/test_new.py
@@ -0,0 +1 @@
+z = 1
diff --git a/tests/test_gone.py b/tests/test_gone.py
deleted file mode 100644
--- a/tests/test_gone.py
+++ /dev/null
@@ -1 +0,0 @@
-z = 1
\\ No newline at end of file
diff --git a/tests/a.py b/tests/b.py
similarity index 100%
rename from tests/a.py
rename to tests/b.py
`

test('reads changed, new, deleted and renamed files in order', () => {
  assert.deepEqual(readPatchedFiles(MIXED), [
    { source: 'a/tests/test_old.py', target: 'b/tests/test_old.py' },
    { source: '/dev/null', target: 'b/tests/test_new.py' },
    { source: 'a/tests/test_gone.py', target: '/dev/null' },
    { source: 'a/tests/a.py', target: 'b/tests/b.py' },
  ])
})

test('reads a diff without Git headers by its file lines', () => {
  assert.deepEqual(
    readPatchedFiles(
      '--- a/x.py\t2020\n+++ b/x.py\t2020\n@@ -1 +1 @@\n-a\n+b\n--- a/y.py\n+++ b/y.py\n@@ -1 +1 @@\n-a\n+b\n',
    ),
    [
      { source: 'a/x.py', target: 'b/x.py' },
      { source: 'a/y.py', target: 'b/y.py' },
    ],
  )
})

test('refuses a hunk shorter than its header, text that is no diff, and an empty text', () => {
  const short = '--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n-a\n+b\n'
  for (const patch of [short, 'hello', '', '@@ -1 +1 @@\n-a\n+b\n']) {
    assert.throws(
      () => readPatchedFiles(patch),
      (error) => isLonghaulError(error) && error.code === 'Task.Invalid',
    )
  }
})

const refused = (patch: string, line: number): void =>
  assert.throws(() => readPatchedFiles(patch), { code: 'Task.Invalid', details: { column: 'test_patch', line } })
const HEAD = '--- a/x.py\n+++ b/x.py\n'

test('a refusal names the offending line, counted from 1', () => {
  refused('@@ -1 +1 @@\n-a\n+b\n', 1)
  refused(`@@ -1 +1 @@\n-a\n+b\n${HEAD}@@ -1 +1 @@\n-a\n+b\n`, 1)
  refused(`${HEAD}@@ -1 +1 @@\n-a\nneither\n`, 5)
  // One removed line too many, one added line too many.
  refused(`${HEAD}@@ -1,1 +1,2 @@\n-a\n-b\n`, 5)
  refused(`${HEAD}@@ -1,2 +1,1 @@\n+a\n+b\n`, 5)
  // It ends inside a hunk: the line behind the last.
  refused(`${HEAD}@@ -1,2 +1 @@\n-a\n+b`, 6)
  refused(`${HEAD}@@ -1 +1,2 @@\n-a\n+b`, 6)
  refused('', 1)
})

test('counts hunk lines, so that a header inside one is content on either side', () => {
  // The second hunk line reads like a header of Git, the third like a file.
  const removed = `${HEAD}@@ -10,3 +10,1 @@\n x\n-diff --git a/no b/no\n--- a/no\n`
  assert.deepEqual(readPatchedFiles(removed), [{ source: 'a/x.py', target: 'b/x.py' }])
  const added = `${HEAD}@@ -10 +10,12 @@\n x\n${'+++ b/no\n'.repeat(11)}`
  assert.deepEqual(readPatchedFiles(added), [{ source: 'a/x.py', target: 'b/x.py' }])
})

test('accepts hunk numbers of several digits, omitted numbers and empty sides', () => {
  const body = (count: number, sign: string) => `${sign}line\n`.repeat(count)
  assert.equal(readPatchedFiles(`${HEAD}@@ -100,12 +100,0 @@\n${body(12, '-')}`).length, 1)
  assert.equal(readPatchedFiles(`${HEAD}@@ -100,0 +100,12 @@\n${body(12, '+')}`).length, 1)
  // Eleven lines of twelve: the empty end of the text would be context, and there may be none.
  refused(`${HEAD}@@ -100,12 +100,0 @@\n${body(11, '-')}`, 15)
})

test('an empty line of a hunk is context that lost its blank, and a remark on line ends counts on no side', () => {
  const patch = `${HEAD}@@ -1,3 +1,3 @@\n a\n\n-c\n\\ No newline at end of file\n+d\n\\ No newline at end of file\n`
  assert.equal(readPatchedFiles(patch).length, 1)
})

test('only a file that loses all its lines in its only hunk counts as deleted', () => {
  const changed = [{ source: 'a/x.py', target: 'b/x.py' }]
  assert.deepEqual(readPatchedFiles(`${HEAD}@@ -1 +0,0 @@\n-a\n`), [{ source: 'a/x.py', target: '/dev/null' }])
  assert.deepEqual(readPatchedFiles(`${HEAD}@@ -1 +0,1 @@\n-a\n+b\n`), changed)
  assert.deepEqual(readPatchedFiles(`${HEAD}@@ -1 +1 @@\n-a\n+b\n@@ -9 +0,0 @@\n-c\n`), changed)
})

test('a command with one name begins no file', () => {
  refused('diff --git  b/x.py\nold mode 100644\n', 1)
})

test('the last line may have no line end', () => {
  assert.deepEqual(readPatchedFiles(`${HEAD}@@ -1 +1 @@\n-a\n+b`), [{ source: 'a/x.py', target: 'b/x.py' }])
})

test('a hunk header that is not at the start of its line is no hunk', () => {
  const patch = `${HEAD}text @@ -1,9 +1,9 @@\n@@ -1 +1 @@\n-a\n+b\n`
  assert.equal(readPatchedFiles(patch).length, 1)
})

test('a new or deleted file without text is known by its mode', () => {
  const empty = 'diff --git a/t/__init__.py b/t/__init__.py\nnew file mode 100644\nindex 0000000..e69de29\n'
  assert.deepEqual(readPatchedFiles(empty), [{ source: '/dev/null', target: 'b/t/__init__.py' }])
  const gone = 'diff --git a/t/__init__.py b/t/__init__.py\ndeleted file mode 100644\nindex e69de29..0000000\n'
  assert.deepEqual(readPatchedFiles(gone), [{ source: 'a/t/__init__.py', target: '/dev/null' }])
})

test('mode lines before any file, and text after a mode, change no file', () => {
  const patch = `new file mode 100644\ndeleted file mode 100644\n+++ b/none\n${HEAD}@@ -1 +1 @@\n-a\n+b\n`
  assert.deepEqual(readPatchedFiles(patch), [{ source: 'a/x.py', target: 'b/x.py' }])
})

test('keeps names that Git quotes as they are written', () => {
  const patch = 'diff --git "a/t\\303\\251.py" "b/t\\303\\251.py"\nold mode 100644\nnew mode 100755\n'
  assert.deepEqual(readPatchedFiles(patch), [{ source: '"a/t\\303\\251.py"', target: '"b/t\\303\\251.py"' }])
})

test('a pure rename between a plain and a quoted name is a file of its own', () => {
  const start = 'diff --git a/t/a.py b/t/a.py\n--- a/t/a.py\n+++ b/t/a.py\n@@ -1 +1 @@\n-a\n+b\n'
  const moved = (names: string) => `${start}diff --git ${names}\nsimilarity index 100%\n`
  const named = (patch: string) => readPatchedFiles(patch).at(-1)
  const quoted = String.raw`t/\303\251 b.py`
  assert.deepEqual(named(moved(`a/t/x y.py "b/${quoted}"`)), { source: 'a/t/x y.py', target: `"b/${quoted}"` })
  assert.deepEqual(named(moved(`"a/${quoted}" b/t/x y.py`)), { source: `"a/${quoted}"`, target: 'b/t/x y.py' })
})

test('modes behind a command without prefixes change its own file and not the one before', () => {
  const start = 'diff --git t/a.py t/a.py\n--- t/a.py\n+++ t/a.py\n@@ -1 +1 @@\n-a\n+b\n'
  assert.deepEqual(readPatchedFiles(`${start}diff --git t/b.py t/b.py\ndeleted file mode 100644\n`), [
    { source: 't/a.py', target: 't/a.py' },
    { source: 't/b.py', target: '/dev/null' },
  ])
})

test('a file that loses all of its lines in one hunk counts as deleted, as upstream has it', () => {
  const emptied = (hunks: string) =>
    `diff --git a/t/__init__.py b/t/__init__.py\n--- a/t/__init__.py\n+++ b/t/__init__.py\n${hunks}`
  const targetOf = (hunks: string) => readPatchedFiles(emptied(hunks))[0]?.target
  assert.equal(targetOf('@@ -1,2 +0,0 @@\n-a\n-b\n'), '/dev/null')
  assert.equal(targetOf('@@ -1,2 +1,0 @@\n-a\n-b\n'), 'b/t/__init__.py')
  assert.equal(targetOf('@@ -1 +0,0 @@\n-a\n@@ -9 +9 @@\n-c\n+d\n'), 'b/t/__init__.py')
  assert.equal(targetOf('@@ -1 +1 @@\n-a\n+b +0,0 @@\n'), 'b/t/__init__.py')
})

test('a header counts only at the start of its line', () => {
  const patch = `see diff --git a/no.py b/no.py\nsee diff --git "a/no.py" "b/no.py"\nsee --- a/no\n${HEAD}see +++ b/no\n@@ -1 +1 @@\n-a\n+b\n`
  assert.deepEqual(readPatchedFiles(patch), [{ source: 'a/x.py', target: 'b/x.py' }])
})

test('a file whose second name line is missing has no target', () => {
  assert.deepEqual(readPatchedFiles('--- a/x.py\n'), [{ source: 'a/x.py', target: '' }])
})

for (const [name, end] of Object.entries({
  'U+2028': '\u2028',
  'U+2029': '\u2029',
  'U+0085': '\u0085',
  CR: '\r',
  FF: '\f',
})) {
  test(`${name} in a name or a line ends neither of them`, () => {
    const named = `tests/te${end}st.py`
    const patch = `diff --git a/${named} b/${named}\n--- a/${named}\n+++ b/${named}\n@@ -1 +1 @@\n-a${end}--- a/x\n+b${end}+++ b/x\n`
    assert.deepEqual(readPatchedFiles(patch), [{ source: `a/${named}`, target: `b/${named}` }])
    // Of a new mode alone the first line is all there is.
    assert.deepEqual(readPatchedFiles(`diff --git a/${named} b/${named}\nold mode 100644\nnew mode 100755\n`), [
      { source: `a/${named}`, target: `b/${named}` },
    ])
  })
}
