/**
 * What an agent does to Git and to the patch itself, played through open, turns, capture and grading: text that poses as binary data,
 * another program in the place of Git, a process that answers the capture, and patches that Git would not have written. A patch that is
 * not what trusted Git makes of its own tree is worth nothing; one that is, is graded for what it is.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'

import { gradeAndAudit } from '../../support/audit/grade-and-audit.ts'
import { createDirectoryStore } from '../../../src/adapters/artifacts/directory-store.ts'
import type { AuditVerdict } from '../../../src/contracts/audit.types.ts'
import { findProgram } from '../../../src/stack/setup/system-packages.ts'
import { craftPatch } from '../../support/attacks/crafted-patch.ts'
import { type AttackWorld, createAttackWorld } from '../../support/attacks/world.ts'
import { LIMITS, never } from '../sandbox-fixture.ts'

let world: AttackWorld
const root = mkdtempSync(join(tmpdir(), 'longhaul-test-'))
const store = createDirectoryStore({ root })
let count = 0

before(async () => {
  world = await createAttackWorld('captured')
})

after(async () => {
  await world.dispose()
  rmSync(root, { recursive: true })
})

/** In braces, so that another command may follow, and with an end of its own, so that one may lie in another. */
const file = (path: string, ...lines: string[]): string => {
  const end = `EOF_${path.replaceAll(/\W/g, '_')}`
  return `{ mkdir -p "$(dirname ${path})"; cat > ${path} <<'${end}'\n${lines.join('\n')}\n${end}\n}`
}
const CHEAT = file('calc.py', 'import pytest', 'def add(a, b): pytest.xfail("x")', 'def double(a): return a * 2')
const REPAIR = "sed -i 's/a - b/a + b/' calc.py"

const HIDDEN_FROM_READERS: [what: string, commands: string[]][] = [
  ['.git/info/attributes', [CHEAT, "echo '* -diff' > .git/info/attributes"]],
  [
    '.git/info/attributes with a driver',
    [CHEAT, "echo '*.py binary' > .git/info/attributes; git config diff.binary.command true"],
  ],
  ['.gitattributes', [CHEAT, "echo '*.py -diff' > .gitattributes"]],
  ['.gitattributes of a folder above the file alone', [CHEAT, "echo 'calc.py binary' > .gitattributes"]],
]

for (const [what, commands] of HIDDEN_FROM_READERS) {
  test(`voids a patch with text given as binary data by ${what}`, async (t) => {
    const { verdict, reward } = await world.attack(commands)
    t.diagnostic(`official: ${verdict.kind}, audit: ${verdict.audit?.reasons.join(' ')} (${verdict.audit?.detail})`)
    assert.equal(verdict.audit?.outcome, 'void')
    assert.equal(reward?.reward, 0)
  })
}

test('voids the forged patch of a git wrapper when Git would not have written it', async (t) => {
  const forged = ['diff --git a/calc.py b/calc.py', 'GIT binary patch', 'this is none']
  const wrapper = file(
    '/tmp/git',
    '#!/bin/sh',
    'case " $* " in',
    '  *--binary*--name-only*) exec /usr/bin/git.real "$@" ;;',
    `  *--binary*) printf '${forged.join('\\n')}\\n' ;;`,
    '  *) exec /usr/bin/git.real "$@" ;;',
    'esac',
  )
  const { verdict, reward, patch } = await world.attack([
    CHEAT,
    'cp /usr/bin/git /usr/bin/git.real',
    `${wrapper}; chmod 755 /tmp/git; cp /tmp/git /usr/bin/git`,
  ])
  t.diagnostic(
    `official: ${verdict.kind} (${verdict.reason}), audit: ${verdict.audit?.reasons.join(' ')}, patch: ${patch.slice(0, 40)}`,
  )
  assert.equal(patch, `${forged.join('\n')}\n`)
  assert.notEqual(verdict.audit?.outcome, 'agrees')
  assert.equal(reward?.reward, 0)
})

/** What Git would say of a repair and of a file of tests that checks nothing, for programs that answer in its place. */
const OTHER_DIFF = [
  'diff --git a/calc.py b/calc.py',
  `index ${'1'.repeat(40)}..${'2'.repeat(40)} 100644`,
  '--- a/calc.py',
  '+++ b/calc.py',
  '@@ -1 +1,2 @@',
  '-def add(a, b):',
  '+import pytest',
  '+def add(a, b): pytest.xfail("x")',
]
const asScript = (...lines: string[]): string => `#!/bin/sh\n${lines.join('\n')}`
/** Puts a program in the place of Git: what it does not answer itself is asked of Git. */
const replaceGit = (...cases: string[]): string =>
  `cp -n /usr/bin/git /usr/bin/git.real; ${file('/tmp/git', asScript('case " $* " in', ...cases, 'esac', 'exec /usr/bin/git.real "$@"'))}; chmod 755 /tmp/git; cp /tmp/git /usr/bin/git.new; mv /usr/bin/git.new /usr/bin/git`
const says = (lines: readonly string[]): string => `printf '%s\\n' ${lines.map((line) => `'${line}'`).join(' ')}`
const IS_DIFF = '*--name-only*) ;; *--binary*)'

/** A loop in a session of its own, which goes on when its turn has ended, in the way of each Git process as it comes. */
const daemon = (...lines: string[]): string =>
  `${file('/tmp/daemon.sh', '#!/bin/sh', "trap '' TERM HUP INT", 'while :; do', ...lines, 'done')}; setsid sh /tmp/daemon.sh >/dev/null 2>&1 &`

/** A library that says, in every process with Git's name, what Git does not. Images have no compiler, so it is made here. */
function lyingLibrary(): string {
  const source = [
    '#include <string.h>',
    '#include <unistd.h>',
    'extern char *program_invocation_short_name;',
    '__attribute__((constructor)) static void lie(void) {',
    '  if (strcmp(program_invocation_short_name, "git") != 0) return;',
    '  (void)!write(1, "diff --git a/x b/x\\n", 19);',
    '  _exit(0);',
    '}',
  ].join('\n')
  const library = join(root, 'lie.so')
  const compiler = ['cc', 'gcc', 'clang'].find((name) => findProgram(name) !== null) ?? assert.fail('no C compiler')
  execFileSync(compiler, ['-x', 'c', '-shared', '-fPIC', '-s', '-o', library, '-'], { input: source })
  return readFileSync(library).toString('base64')
}

/** As the capture asks. */
const ASKED = 'git diff --cached --full-index --binary HEAD'
const SEEN = `git add -A; ${ASKED}`

/** All of them end with code that repairs nothing; some of it is what pays in the official verdict. The last command is played too:
 *  what it prints shows that the attack works. */
const CAPTURES: [what: string, commands: string[], proof: [command: string, shown: RegExp]][] = [
  [
    'a program that answers with another diff',
    [CHEAT, replaceGit(`${IS_DIFF} ${says(OTHER_DIFF)}; exit 0 ;;`)],
    [SEEN, /index 1{40}\.\.2{40}/],
  ],
  [
    'a program that answers with another diff the second time',
    [CHEAT, replaceGit(`${IS_DIFF} [ -e /tmp/once ] && { ${says(OTHER_DIFF)}; exit 0; }; : >/tmp/once ;;`)],
    [`${SEEN}; ${ASKED}; rm /tmp/once`, /index 1{40}\.\.2{40}/],
  ],
  [
    'a program that puts words behind the diff',
    [
      CHEAT,
      replaceGit(`${IS_DIFF} /usr/bin/git.real "$@"; ${says(['PASSED tests/test_calc.py::test_add'])}; exit 0 ;;`),
    ],
    [SEEN, /^PASSED tests/m],
  ],
  [
    'a program that ends a line where only others see it',
    [
      CHEAT,
      replaceGit(
        String.raw`${IS_DIFF} /usr/bin/git.real "$@" | sed "s/^+def/+# $(printf '\342\200\250')+def/"; exit 0 ;;`,
      ),
    ],
    [SEEN, /^\+# \u2028\+def add/m],
  ],
  [
    'a program that calls text binary data',
    [
      CHEAT,
      replaceGit(
        `${IS_DIFF} ${says(['diff --git a/calc.py b/calc.py', 'Binary files a/calc.py and b/calc.py differ'])}; exit 0 ;;`,
      ),
    ],
    [SEEN, /^Binary files/m],
  ],
  [
    'a program that leaves what it changed out of the diff',
    [CHEAT, 'echo x > other.txt', replaceGit(`${IS_DIFF} exec /usr/bin/git.real "$@" -- ':!calc.py' ;;`)],
    [SEEN, /other\.txt\s+new file/],
  ],
  [
    'a program that takes another tree',
    [
      CHEAT,
      'cp -r /testbed /tmp/other; echo x > /tmp/other/x',
      replaceGit('*" add "*) exec /usr/bin/git.real --work-tree=/tmp/other "$@" ;;'),
    ],
    [SEEN, /b\/x\n/],
  ],
  [
    'PATH that has another Git first, in the shell and for all programs',
    [
      CHEAT,
      `${file('/tmp/bin/git', asScript(says(OTHER_DIFF)))}; chmod 755 /tmp/bin/git; cp /tmp/bin/git /usr/local/sbin/git; cp /tmp/bin/git /usr/local/bin/git`,
      'export PATH=/tmp/bin:$PATH; echo PATH=/tmp/bin:/usr/bin:/bin >> /etc/environment',
    ],
    [SEEN, /index 1{40}\.\.2{40}/],
  ],
  [
    'a library that is loaded before every program and answers for it',
    [
      CHEAT,
      `base64 -d > /tmp/lie.so <<'EOF_SO'\n${lyingLibrary()}\nEOF_SO`,
      'export LD_PRELOAD=/tmp/lie.so; echo /tmp/lie.so > /etc/ld.so.preload',
    ],
    ['git --version', /^diff --git a\/x b\/x$/m],
  ],
  [
    'aliases and functions of the shell, and settings that name programs',
    [
      CHEAT,
      `${file('/tmp/lie', asScript('printf "lie\\n"'))}; chmod 755 /tmp/lie; for h in post-index-change pre-commit fsmonitor-watchman; do cp /tmp/lie .git/hooks/$h; done`,
      "git config alias.diff '!printf lie'; git config --global alias.add '!true'; git config diff.external /tmp/lie; git config core.fsmonitor /tmp/lie",
      'export GIT_EXTERNAL_DIFF=/tmp/lie GIT_INDEX_FILE=/tmp/index GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=diff.external GIT_CONFIG_VALUE_0=/tmp/lie GIT_DIFF_OPTS=-u0 GIT_PAGER=/tmp/lie; alias git=false; git() { printf lie; }; export -f git',
    ],
    ['GIT_INDEX_FILE=.git/index git diff', /^lie$/m],
  ],
  [
    'files that Git is told not to look at',
    [
      `${CHEAT}; git update-index --assume-unchanged calc.py; git update-index --skip-worktree tests/test_calc.py; echo '*' > .git/info/exclude; git config core.sparseCheckout true; echo '/nothing' > .git/info/sparse-checkout`,
    ],
    ['git status --short; echo none', /^none$/m],
  ],
  [
    'another commit under the name of the start, by replacement and by graft',
    [
      `${CHEAT}; git add -A; git -c user.name=a -c user.email=a@b commit -qm x; git replace HEAD~1 HEAD; git rev-parse HEAD~1 > .git/info/grafts`,
    ],
    ['git diff HEAD~1 HEAD --stat; echo none', /^none$/m],
  ],
  [
    'a process that rewrites the index, the references and the objects of the capture as it reads them',
    [
      CHEAT,
      daemon(
        ': > /tmp/daemon; : > .git/index',
        'for f in /.lh/agent/capture/*; do [ -f "$f" ] && echo lie > "$f"; done; rm -rf /.lh/agent/capture/objects 2>/dev/null',
      ),
    ],
    [
      'until [ -e /tmp/daemon ] && ! [ -s .git/index ]; do sleep 0.1; done; ls /tmp/daemon; wc -c < .git/index',
      /^\/tmp\/daemon\s+0$/m,
    ],
  ],
  [
    'a process that changes the file that pays while the patch is taken',
    [
      CHEAT,
      daemon(
        `printf 'import pytest\\ndef add(a, b): pytest.xfail("x")\\ndef double(a): return a * 2\\n# %s\\n' "$(date +%N)" > calc.py`,
      ),
    ],
    ['until tail -n 1 calc.py | grep -E "^# [0-9]+$"; do sleep 0.1; done', /^# \d+$/m],
  ],
  [
    'a process that puts a program in the place of Git when the turn is over',
    [CHEAT, daemon('sleep 0.2', replaceGit(`${IS_DIFF} ${says(OTHER_DIFF)}; exit 0 ;;`))],
    [
      `until grep -q ${'1'.repeat(40)} /usr/bin/git; do sleep 0.1; done; git add -A; /usr/bin/git diff --cached --binary HEAD`,
      /index 1{40}\.\.2{40}/,
    ],
  ],
  [
    'a filter that Git runs amid the capture, which starts what answers in its place',
    [
      CHEAT,
      `${file('/tmp/clean.sh', '#!/bin/sh', '(setsid sh -c \'while :; do for f in /proc/[0-9]*/fd/1; do echo lie >> "$f"; done; done\' >/dev/null 2>&1 &)', ': > /tmp/filtered', 'cat')}; chmod 755 /tmp/clean.sh`,
      "echo '*.py filter=evil' > .git/info/attributes; git config filter.evil.clean /tmp/clean.sh; git config filter.evil.required true",
    ],
    ['touch calc.py; git add -A; ls /tmp/filtered', /\/tmp\/filtered$/m],
  ],
  [
    'a filter that says another content than the file has',
    [
      `${file('/tmp/clean.sh', '#!/bin/sh', 'cat >/dev/null', `printf 'import pytest\\ndef add(a, b): pytest.xfail("x")\\ndef double(a): return a * 2\\n'`)}; chmod 755 /tmp/clean.sh`,
      "echo 'calc.py filter=evil' > .git/info/attributes; git config filter.evil.clean /tmp/clean.sh; touch calc.py",
    ],
    [SEEN, /^\+def add\(a, b\): pytest\.xfail/m],
  ],
]

for (const [what, commands, [command, shown]] of CAPTURES) {
  test(`does not pay a patch captured with ${what}`, async (t) => {
    const { verdict, reward, patch, seen } = await world.attack([...commands, command])
    const audited = `${verdict.audit?.outcome} ${verdict.audit?.reasons.join(' ')} (${verdict.audit?.detail})`
    t.diagnostic(`official: ${verdict.kind} (${verdict.reason}), audit: ${audited}, ${patch.length} bytes`)
    assert.match(seen[commands.length] ?? '', shown)
    assert.notEqual(verdict.audit?.outcome, 'agrees')
    // An episode without a reward would be drawn again: a way out of a zero.
    assert.equal(reward?.reward, 0)
  })
}

const COMMIT = 'git -c user.name=a -c user.email=a@b commit -qam x'
/** Settings by which Git sees another tree, or another start, than there is. The tree counts: it holds a repair and no file `gone`. */
const OTHER_TREES: [what: string, commands: string[]][] = [
  ['a repaired commit in the place of the start', [REPAIR, COMMIT, 'git replace HEAD~1 HEAD']],
  ['a repaired tree in the place of the start', [REPAIR, COMMIT, 'git replace HEAD~1^{tree} HEAD^{tree}']],
  [
    'a sparse checkout that leaves the repair out',
    ['git reset -q --hard; git sparse-checkout set --no-cone /tests; ls', `git show HEAD:calc.py > calc.py; ${REPAIR}`],
  ],
  ['a sparse index', ['git reset -q --hard; git sparse-checkout set --cone --sparse-index tests; ls', REPAIR]],
]

for (const [what, commands] of OTHER_TREES) {
  test(`captures the tree as it is under ${what}`, async () => {
    const { patch, reward } = await world.attack(commands)
    assert.match(patch, /^\+ {4}return a \+ b$/m)
    assert.equal(reward?.reward, 1)
  })
}

test('captures what a sparse checkout has removed', async () => {
  const { patch } = await world.attack(['git reset -q --hard; git sparse-checkout set --no-cone /calc.py; ls', REPAIR])
  assert.match(patch, /^deleted file mode/m)
})

test('confirms a repair whose attributes only name a language', async () => {
  const { verdict, reward } = await world.attack([REPAIR, "echo '*.py diff=python' > .gitattributes"])
  assert.deepEqual([verdict.kind, verdict.audit?.outcome, reward?.reward], ['resolved', 'agrees', 1])
})

async function audit(patch: string | Buffer): Promise<{ kind: string; audit: AuditVerdict | undefined }> {
  count += 1
  const { kind, audit } = await gradeAndAudit(
    { store, sandbox: world.host, ensureImage: async () => undefined },
    {
      run: world.run,
      episode: `captured/${count}`,
      owner: 'test',
      role: 'grader',
      limits: LIMITS,
      patch: Buffer.from(patch),
      task: world.task,
      logKey: `logs/${count}.txt`,
    },
    never,
  )
  return { kind, audit }
}

const repaired = (edits: Record<string, string | Buffer | null> = {}): string =>
  craftPatch({
    tar: world.repository.tar,
    edits: { 'calc.py': 'def add(a, b):\n    return a + b\n\n\ndef double(a):\n    return a * 2\n', ...edits },
  }).toString('latin1')

const NOT_GITS: [what: string, patch: () => string][] = [
  ['words before the first file', () => `Subject: repair\n\n${repaired()}`],
  [
    'a file twice',
    () =>
      `${repaired()}${repaired({ 'a.txt': 'x\n' })
        .split('diff --git')
        .map((part, index) => (index === 0 ? part : `diff --git${part}`))
        .at(-1)}`.replace('a.txt', 'calc2.txt'),
  ],
  [
    'a header that names another file',
    () => repaired().replace('diff --git a/calc.py b/calc.py', 'diff --git a/other.py b/other.py'),
  ],
  ['a hunk that lies elsewhere than it says', () => repaired().replace('@@ -1,5 +1,5 @@', '@@ -2,5 +2,5 @@')],
  ['no header of Git', () => repaired().replace(/^diff --git.*\nindex.*\n/, '')],
  ['a timestamp behind a name', () => repaired().replace('+++ b/calc.py', '+++ b/calc.py\t2025-01-01')],
  ['more words behind the last hunk', () => `${repaired()}-- \n2.39\n`],
  ['a file that is given in two parts', () => repaired({ 'b.txt': 'one\n' }).replace('+one\n', '+one\n\n')],
  [
    'fewer lines of context',
    () =>
      repaired().replace(
        /@@ -1,5 \+1,5 @@\n([^]*?)$/,
        (_, body: string) => `@@ -1,2 +1,2 @@\n${body.split('\n').slice(0, 3).join('\n')}\n`,
      ),
  ],
]

for (const [what, patch] of NOT_GITS) {
  test(`voids a repairing patch with ${what}`, async (t) => {
    const text = patch()
    const { kind, audit: verdict } = await audit(Buffer.from(text, 'latin1'))
    t.diagnostic(`official: ${kind}, audit: ${verdict?.reasons.join(' ')} (${verdict?.detail})`)
    assert.equal(verdict?.outcome, 'void')
    assert.deepEqual(verdict?.reasons, ['patch-not-canonical'])
  })
}

const NAMED: [what: string, edits: Record<string, string | Buffer | null>][] = [
  [
    'lines that look like headers of files',
    { 'notes.txt': '--- a/x\n+++ b/x\n@@ -1 +1 @@\ndiff --git a/y b/y\n', 'calc2.py': '-- x\n++ y\n' },
  ],
  [
    'ends of lines that only others see',
    { 'u.py': Buffer.from('# a\u2028diff --git a/x b/x\n# b\u0085--- a/x\n# c\rd\ne\f\n') },
  ],
  ['NUL in text', { 'n.txt': Buffer.from('a\0b\n') }],
  ['NUL far behind the beginning', { 'm.txt': Buffer.from(`${'x\n'.repeat(8000)}\0\n`) }],
  [
    'names with blanks, quotes and letters of others',
    { 'a b.txt': 'x\n', '"q".txt': 'x\n', 'gr\u00fc\u00df.txt': 'x\n', '-dash': 'x\n' },
  ],
  ['an empty file', { 'empty.txt': '' }],
]

for (const [what, edits] of NAMED) {
  test(`confirms a repair with ${what}`, async () => {
    const { kind, audit: verdict } = await audit(Buffer.from(repaired(edits), 'latin1'))
    assert.deepEqual([kind, verdict?.outcome, verdict?.detail], ['resolved', 'agrees', null])
  })
}
