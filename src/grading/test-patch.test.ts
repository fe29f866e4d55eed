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

test('changed, new, deleted and renamed files are read in order', () => {
  assert.deepEqual(readPatchedFiles(MIXED), [
    { source: 'a/tests/test_old.py', target: 'b/tests/test_old.py' },
    { source: '/dev/null', target: 'b/tests/test_new.py' },
    { source: 'a/tests/test_gone.py', target: '/dev/null' },
    { source: 'a/tests/a.py', target: 'b/tests/b.py' },
  ])
})

test('a diff without the header of Git is read by its file lines', () => {
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

test('a hunk that is shorter than its header, text that is no diff and nothing at all are refused', () => {
  const short = '--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n-a\n+b\n'
  for (const patch of [short, 'hello', '', '@@ -1 +1 @@\n-a\n+b\n']) {
    assert.throws(
      () => readPatchedFiles(patch),
      (error) => isLonghaulError(error) && error.code === 'Task.Invalid',
    )
  }
})
