import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type PatchFile, readPatchFiles } from './patch-files.ts'

const read = (patch: string): PatchFile[] => readPatchFiles(Buffer.from(patch))

test('reads a changed file with its name, its mode from the index line, its additions and the lines of its hunks', () => {
  const patch = [
    'diff --git a/src/a.py b/src/a.py',
    'index 1111111..2222222 100755',
    '--- a/src/a.py',
    '+++ b/src/a.py',
    '@@ -1,2 +1,2 @@ def f():',
    ' kept',
    '-gone',
    '+new',
    '\\ No newline at end of file',
  ].join('\n')
  assert.deepEqual(read(patch), [
    {
      path: 'src/a.py',
      kind: 'changed',
      mode: '100755',
      added: ['new'],
      lines: ['@@ -1,2 +1,2 @@ def f():', ' kept', '-gone', '+new', '\\ No newline at end of file'],
    },
  ])
})

test('reads kind and mode of a new, a deleted and a mode-only file from the header', () => {
  const files = read(
    [
      'diff --git a/n.py b/n.py',
      'new file mode 100644',
      'index 0000000..1111111',
      '--- /dev/null',
      '+++ b/n.py',
      '@@ -0,0 +1 @@',
      '+x',
      'diff --git a/d.py b/d.py',
      'deleted file mode 100644',
      'index 1111111..0000000',
      '--- a/d.py',
      '+++ /dev/null',
      '@@ -1 +0,0 @@',
      '-x',
      'diff --git a/m.py b/m.py',
      'old mode 100644',
      'new mode 100755',
      '',
    ].join('\n'),
  )
  assert.deepEqual(
    files.map(({ path, kind, mode, added }) => ({ path, kind, mode, added })),
    [
      { path: 'n.py', kind: 'added', mode: '100644', added: ['x'] },
      { path: 'd.py', kind: 'deleted', mode: null, added: [] },
      { path: 'm.py', kind: 'changed', mode: '100755', added: [] },
    ],
  )
  // Without a hunk there is no line.
  assert.deepEqual(files[2]?.lines, [])
})

test('a binary file has no added text, even when its data looks like a diff', () => {
  const [file] = read(
    'diff --git a/x.bin b/x.bin\nindex 1..2 100644\nGIT binary patch\nliteral 3\n+new file mode 100644\n\n',
  )
  assert.deepEqual([file?.path, file?.kind, file?.mode], ['x.bin', 'changed', '100644'])
  assert.equal(file?.lines[0], 'GIT binary patch')
})

test('header words inside a hunk are content', () => {
  const [file, ...others] = read(
    'diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1,3 @@\n+deleted file mode 100644\n+new file mode 160000\n deleted file mode 1\n',
  )
  assert.deepEqual([others.length, file?.kind, file?.mode], [0, 'changed', null])
  assert.deepEqual(file?.added, ['deleted file mode 100644', 'new file mode 160000'])
})

test('header words after the hunks of a file do not apply to it', () => {
  const patch = [
    'diff --git a/a.py b/a.py',
    '--- a/a.py',
    '+++ b/a.py',
    '@@ -1 +1 @@',
    '-x',
    '+y',
    'rename to conftest.py',
    'new mode 100755',
  ]
  assert.deepEqual(read(patch.join('\n')), [
    { path: 'a.py', kind: 'changed', mode: null, added: ['y'], lines: patch.slice(3) },
  ])
})

test('an index line without a mode, or with further text, gives none', () => {
  const mode = (index: string) => read(`diff --git a/a b/a\n${index}\n--- a/a\n+++ b/a\n`)[0]?.mode
  assert.equal(mode('index 1111111..2222222'), null)
  assert.equal(mode('index 1111111..2222222 100644 x'), null)
  assert.equal(mode('index 1111111..2222222 120000'), '120000')
})

test('names: removes the Git prefix once, and a tab after a name with blanks', () => {
  const path = (line: string) => read(`diff --git a/x b/x\n--- /dev/null\n+++ ${line}\n@@ -0,0 +1 @@\n+y\n`)[0]?.path
  assert.equal(path('b/a/b.py'), 'a/b.py')
  assert.equal(path('b/with blank.py\t'), 'with blank.py')
  assert.equal(path('b/src/a/x.py'), 'src/a/x.py')
  assert.equal(path('no-prefix/a/x.py'), 'no-prefix/a/x.py')
})

test('takes half of the first line as the name when no text changed', () => {
  const path = (first: string) => read(`${first}\nold mode 100644\nnew mode 100755\n`)[0]?.path
  assert.equal(path('diff --git a/pkg/a/x.py b/pkg/a/x.py'), 'pkg/a/x.py')
  assert.equal(path('diff --git "a/caf\\303\\251.py" "b/caf\\303\\251.py"'), 'café.py')
})

test('quoted names: octal bytes are UTF-8, and escapes are the characters that they mean', () => {
  const path = (name: string) => read(`diff --git a/x b/x\n--- /dev/null\n+++ "b/${name}"\n`)[0]?.path
  assert.equal(path('caf\\303\\251.py'), 'café.py')
  assert.equal(path('a\\tb'), 'a\tb')
  assert.equal(path('a\\nb'), 'a\nb')
  assert.equal(path('a\\"b'), 'a"b')
  assert.equal(path('a\\\\b'), 'a\\b')
  assert.equal(path('a\\0011'), 'a\u00011')
})

test('reads an unclosed quote as far as it goes', () => {
  assert.equal(read('diff --git a/x b/x\n--- /dev/null\n+++ "b/a.py\n')[0]?.path, 'a.py')
})

test('text before the first file, and text that is no patch, contain no file', () => {
  assert.deepEqual(read('From: me\n\nhello\n'), [])
  assert.deepEqual(read(''), [])
  assert.deepEqual(
    read('a word\ndiff --git a/a b/a\nold mode 1\nnew mode 100755\n').map(({ path }) => path),
    ['a'],
  )
})

test('a byte order mark is part of the text and hides no first file', () => {
  assert.deepEqual(read('\uFEFFdiff --git a/a b/a\n'), [])
})

/** Line ends of other programs: for Git, and so for a diff, they are content. */
const NO_LINE_ENDS = {
  'U+2028': '\u2028',
  'U+2029': '\u2029',
  'U+0085': '\u0085',
  CR: '\r',
  FF: '\f',
  VT: '\v',
  FS: '\u001C',
}

for (const [name, end] of Object.entries(NO_LINE_ENDS)) {
  test(`${name} inside a line begins no file, ends no hunk and hides nothing after it`, () => {
    const files = read(
      [
        'diff --git a/a.py b/a.py',
        'index 1111111..2222222 100644',
        '--- a/a.py',
        '+++ b/a.py',
        '@@ -1,2 +1,3 @@',
        ` # said${end}diff --git a/x.txt b/x.txt${end}--- a/x.txt${end}+++ b/x.txt`,
        `-gone${end}diff --git a/y.txt b/y.txt`,
        `+# a remark${end}diff --git a/z.txt b/z.txt`,
        '+evil()',
        '',
      ].join('\n'),
    )
    assert.deepEqual(
      files.map(({ path, added }) => ({ path, added })),
      [{ path: 'a.py', added: [`# a remark${end}diff --git a/z.txt b/z.txt`, 'evil()'] }],
    )
  })

  test(`${name} inside a name is part of the name`, () => {
    const raw = read(`diff --git a/x b/x\n--- /dev/null\n+++ b/tests/a${end}b.py\n@@ -0,0 +1 @@\n+y\n`)
    assert.equal(raw[0]?.path, `tests/a${end}b.py`)
    const unquoted = read(`diff --git a/p/a${end}b.py b/p/a${end}b.py\nold mode 100644\nnew mode 100755\n`)
    assert.equal(unquoted[0]?.path, `p/a${end}b.py`)
  })
}

test('decodes every escape of Git, also beside unquoted letters', () => {
  const path = (name: string) => read(`diff --git a/x b/x\n--- /dev/null\n+++ "b/${name}"\n`)[0]?.path
  assert.equal(path('a\\rb\\fc\\vd\\ae\\bf'), 'a\rb\fc\vd\u0007e\bf')
  assert.equal(path('caf\u00E9\\\\\u2028\\303\\251\u{1F600}'), 'caf\u00E9\\\u2028\u00E9\u{1F600}')
})

test("a removed line like a header, and lines beyond a hunk's stated length, stay content", () => {
  const files = read(
    'diff --git a/a.sql b/a.sql\n--- a/a.sql\n+++ b/a.sql\n@@ -1,1 +1,1 @@\n--- a/conftest.py\n+++ b/conftest.py\n+more\n',
  )
  assert.deepEqual(
    files.map(({ path, added }) => ({ path, added })),
    [{ path: 'a.sql', added: ['++ b/conftest.py', 'more'] }],
  )
})

test('reads a diff without Git headers, because the tool that applies it does', () => {
  const files = read(
    '--- a/x.py\t2020\n+++ b/x.py\t2020\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ b/conftest.py\n@@ -0,0 +1,2 @@\n+c\n+d\n--- a/g.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n',
  )
  assert.deepEqual(
    files.map(({ path, kind, added }) => ({ path, kind, added })),
    [
      { path: 'x.py', kind: 'changed', added: ['b'] },
      { path: 'conftest.py', kind: 'added', added: ['c', 'd'] },
      { path: 'g.py', kind: 'deleted', added: [] },
    ],
  )
})

test('a rename or a copy is a file with its new name', () => {
  const files = read(
    'diff --git a/helper.py b/conftest.py\nsimilarity index 100%\nrename from helper.py\nrename to conftest.py\n' +
      'diff --git a/h.py b/t/h.py\nsimilarity index 90%\ncopy from h.py\ncopy to t/h.py\n--- a/h.py\n+++ b/t/h.py\n@@ -1 +1 @@\n-a\n+b\n',
  )
  assert.deepEqual(
    files.map(({ path, kind, added }) => ({ path, kind, added })),
    [
      { path: 'conftest.py', kind: 'added', added: [] },
      { path: 't/h.py', kind: 'added', added: ['b'] },
    ],
  )
})

test('header words within the stated length of a hunk are content', () => {
  const bodies: [hunk: string, lines: string[]][] = [
    ['@@ -10,12 +20,12 @@', Array(12).fill(' --- a/x')],
    ['@@ -100,0 +200,11 @@', Array(11).fill('+++ b/x')],
    ['@@ -100,11 +200,0 @@', Array(11).fill('--- a/x')],
    ['@@ -7 +8,2 @@', ['--- a/x', '+++ b/x', '+x']],
    ['@@ -7,2 +8 @@', ['--- a/x', '+++ b/x', '-x']],
    ['@@ -1,2 +1,2 @@', ['', ' --- a/x']],
    ['@@ -1,2 +1,2 @@', ['', '--- a/x', '+++ b/x']],
    ['@@ -10,12 +20,12 @@', ['--- a/x', '+++ b/x', ...Array(11).fill(' kept')]],
    ['@@ -7 +7,0 @@', [String.raw`-a + b \ c`]],
    ['@@ -7,0 +7 @@', [String.raw`+a - b \ c`]],
    // More lines on one side than it announces: the hunk is over where the other side is complete too.
    ['@@ -7 +8,2 @@', ['-x', '--- a/x', '+++ b/x', '+y']],
    ['@@ -7,3 +8 @@', ['+x', '--- a/x', '+++ b/x', '-y', '-z']],
    ['@@ -7,3 +8,3 @@', ['+x', '+y', '+z', '--- a/x', '+++ b/x', '-y', '-z']],
    ['@@ -7,3 +8,3 @@', ['-x', '-y', '-z', '--- a/x', '+++ b/x', '+y', '+z']],
    [
      '@@ -1 +1 @@',
      ['-x', String.raw`\ No newline at end of file`, '+++ b/x', String.raw`\ No newline at end of file`],
    ],
  ]
  for (const [hunk, lines] of bodies) {
    const file = ['diff --git a/a.py b/a.py', '--- a/a.py', '+++ b/a.py', hunk, ...lines]
    const next = ['--- a/b.py', '+++ b/b.py', '@@ -1 +1 @@', '-x', '+y']
    const found = read([...file, ...next].join('\n'))
    assert.deepEqual(
      found.map(({ path }) => path),
      ['a.py', 'b.py'],
      hunk,
    )
    assert.deepEqual(found[0]?.lines, [hunk, ...lines])
    assert.deepEqual(
      found[0]?.added,
      lines.filter((line) => line.startsWith('+')).map((line) => line.slice(1)),
    )
  }
})

test('a new file begins after a hunk that ends early, and a single name line begins none', () => {
  const early = read(
    'diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,9 +1,9 @@\n x\ndiff --git a/b b/b\n--- a/b\n+++ b/b\n',
  )
  assert.deepEqual(
    early.map(({ path }) => path),
    ['a', 'b'],
  )
  const inside = read('diff --git a/a b/a\n--- a/a\n+++ b/a\nx @@ -1,3 +1,3 @@\n--- a/b\n+++ b/b\n')
  assert.deepEqual(
    inside.map(({ path }) => path),
    ['a', 'b'],
  )
  // One of the two names alone is none of a file.
  assert.equal(read('diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n--- a/b\nx\n').length, 1)
  assert.deepEqual(read('x\n+++ b/y\n@@ -1 +1 @@\n-x\n+y\n'), [])
  assert.deepEqual(read('--- a/x'), [])
})

test('names: reads them from a header only, with a date, in a folder a or b, and of a deleted file', () => {
  const paths = (patch: string): string[] => read(patch).map(({ path }) => path)
  assert.deepEqual(paths('diff --git a/x a/y b/x a/y\nold mode 100644\nnew mode 100755\n'), ['x a/y'])
  assert.deepEqual(paths('--- a/x y\t2026-01-01\n+++ b/x y\t2026-01-02\n@@ -1 +1 @@\n-x\n+y\n'), ['x y'])
  assert.deepEqual(paths('diff --git a/lib/a/x b/lib/a/x\n--- a/lib/a/x\n+++ b/lib/a/x\n'), ['lib/a/x'])
  assert.deepEqual(paths('diff --git a/x b/x\n--- \n+++ b/x\n'), ['x'])
  // The second name is missing, or empty: the first one counts, and comes before those of the header.
  assert.deepEqual(paths('diff --git a/x b/x\n--- a/y\n@@ -1 +0,0 @@\n-z\n'), ['y'])
  assert.deepEqual(paths('diff --git a/x b/x\n--- a/y\n+++ \n'), ['y'])
  assert.deepEqual(paths('diff --git lib/a/x lib/a/x\nold mode 100644\nnew mode 100755\n'), ['lib/a/x'])
  const [gone] = read('diff --git a/x b/x\ndeleted file mode 100644\nindex 1..0\n')
  assert.deepEqual([gone?.kind, gone?.path, gone?.lines], ['deleted', 'x', []])
  // A hunk without a file takes the lines that it announces with it.
  assert.deepEqual(read('@@ -1 +1 @@\n--- a/x\n+++ b/x\n'), [])
})

test('a quoted name: reads octal bytes of three digits and letters, but nothing similar', () => {
  const quoted = (name: string): string | undefined =>
    read(`diff --git "a/${name}" "b/${name}"\n--- "a/${name}"\n+++ "b/${name}"\n`)[0]?.path
  assert.equal(quoted(String.raw`t\303\251\t\"x`), 'té\t"x')
  assert.equal(quoted(String.raw`\\101`), String.raw`\101`)
  assert.equal(quoted(String.raw`a\b1234`), 'a\b1234')
})
