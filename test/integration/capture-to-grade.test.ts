/** The agent's work, captured in its sandbox, carried as bytes to a fresh container and applied there as the grader does. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { patchSigns } from '../../src/grading/patch-signs.ts'
import { APPLY_COMMANDS_4 } from '../../src/grading/profiles/testbed.ts'
import { createPlayer, createSandboxFixture, lastTurn, LIMITS, never, type SandboxFixture } from './sandbox-fixture.ts'

const FILES = {
  'keep.py': 'x = 1\n',
  'gone.txt': 'bye\n',
  'dos.txt': 'a\r\nb\r\n',
  'open-end.txt': 'a\nb',
  'latin.txt': Buffer.from('caf\xe9\n', 'latin1'),
  'raw.bin': Buffer.from([0, 1, 2, 255]),
  'tool.sh': '#!/bin/sh\n',
  'target.txt': 'pointed at\n',
  '.gitignore': 'ignored/\n',
}

/** Everything but Git's own: kind, mode bit of execution, content. Ignored files and the grader's own stay out. */
const LISTING = `cd /testbed; find . -path ./.git -prune -o -path ./ignored -prune -o '(' -type f -o -type l ')' -print | LC_ALL=C sort |
while IFS= read -r f; do
  if [ -L "$f" ]; then echo "$f -> $(readlink "$f")"; continue; fi
  [ -x "$f" ] && x=x || x=-
  echo "$f $x $(sha256sum < "$f")"
done`

const CHANGES = [
  'echo "y = 2" >> keep.py',
  'rm gone.txt',
  'printf "a\\r\\nB\\r\\n" > dos.txt',
  'printf "a\\nc" > open-end.txt',
  'printf "th\\351\\n" > latin.txt',
  'printf "\\000\\376" > raw.bin',
  'chmod +x tool.sh',
].join('\n')

const NEW = [
  'mkdir -p new/deep ignored; echo deep > "new/deep/a file.txt"; echo no > ignored/x',
  'printf "\\000\\001\\377" > new/raw.bin',
  'printf "no end" > new/open-end',
  'printf "r\\351sum\\351\\r\\n" > new/latin-dos.txt',
  'printf "#!/bin/sh\\n" > new/run.sh; chmod +x new/run.sh',
  'ln -s target.txt link; ln -s ../keep.py new/up; ln -s /nowhere new/broken',
  'rm target.txt; ln -s keep.py target.txt',
  ': > new/empty',
].join('\n')

let fixture: SandboxFixture
let placement = 0

before(async () => {
  fixture = await createSandboxFixture('capture-to-grade', FILES)
})

after(() => fixture.dispose())

/** What the files look like where the agent worked, the patch, and what they look like where it is graded. */
async function carry(command: string, mode: 'all' | 'unstaged') {
  const { host, image } = fixture
  placement += 1
  const sandbox = await host.open(fixture.openInput({ placement }), never)
  const player = createPlayer(host, sandbox)
  const played = await player.play(command)
  assert.equal(played.exitCode, 0, played.text)
  const captured = await host.capture(sandbox, { mode, after: lastTurn(sandbox) }, never)
  const { text: worked } = await player.play(LISTING)
  await host.close(sandbox)
  const graded = await host.grade(
    {
      ...fixture.openInput(),
      role: 'grader',
      image,
      limits: LIMITS,
      patch: captured.patch,
      applyCommands: APPLY_COMMANDS_4,
      evalScript: LISTING,
      timeoutMs: 60_000,
    },
    never,
  )
  return { captured, worked, graded: { kind: graded.kind, text: Buffer.from(graded.log).toString() } }
}

test('all: new, changed, deleted and binary files, CRLF, Latin-1, modes and symlinks arrive unchanged', async () => {
  const { captured, worked, graded } = await carry(`${CHANGES}\n${NEW}`, 'all')
  assert.deepEqual(graded, { kind: 'ran', text: worked })
  assert.match(worked, /^\.\/new\/run\.sh x /m)
  assert.match(worked, /^\.\/target\.txt -> keep\.py$/m)
  assert.equal(captured.failure, undefined)
})

test('all: staged and committed work arrives too, also on another branch', async () => {
  const commit = 'git -c user.name=a -c user.email=a@b commit -q'
  const command = `${CHANGES}\ngit add -A; ${commit} -m one\n${NEW}\ngit checkout -q -b other; git add -A; ${commit} -m two; echo more >> keep.py; git add keep.py`
  const { worked, graded } = await carry(command, 'all')
  assert.deepEqual(graded, { kind: 'ran', text: worked })
})

test('unstaged: only what plain git diff shows arrives, and new files are counted as lost', async () => {
  const { captured, worked, graded } = await carry(`${CHANGES}\n${NEW}`, 'unstaged')
  const isNew = (line: string): boolean => /^\.\/(new\/|link )/.test(line)
  const expected = worked.split('\n').filter((line) => !isNew(line))
  assert.deepEqual(graded, { kind: 'ran', text: expected.join('\n') })
  assert.equal(captured.lostFiles, 9)
})

for (const mode of ['all', 'unstaged'] as const) {
  test(`${mode}: a file with only a changed mode and a link with another target arrive`, async () => {
    const { worked, graded } = await carry('chmod +x keep.py; chmod +x tool.sh', mode)
    assert.deepEqual(graded, { kind: 'ran', text: worked })
  })
}

test('all: a nested repository loses its content, which patch and signs show', async () => {
  const init = 'git init -q inner && cd inner && echo lost > a && git add a'
  const command = `${init} && git -c user.name=a -c user.email=a@b commit -q -m x; cd /testbed; echo "y = 2" >> keep.py`
  const { captured, graded } = await carry(command, 'all')
  assert.deepEqual(patchSigns({ patch: captured.patch, goldPatch: '' }), ['submodule'])
  assert.equal(graded.kind, 'ran')
  assert.match(graded.text, new RegExp(`^\\./keep\\.py - ${await digestOf('x = 1\ny = 2\n')}`, 'm'))
  assert.doesNotMatch(graded.text, /inner\/a/)
})

test('all: an empty nested repository does not affect the rest of the work', async () => {
  const { captured, graded } = await carry('git init -q inner; echo "y = 2" >> keep.py; echo z > z.txt', 'all')
  assert.equal(captured.failure, undefined)
  assert.match(graded.text, new RegExp(`^\\./keep\\.py - ${await digestOf('x = 1\ny = 2\n')}`, 'm'))
  assert.match(graded.text, /^\.\/z\.txt /m)
})

async function digestOf(text: string): Promise<string> {
  return Buffer.from(await crypto.subtle.digest('SHA-256', Buffer.from(text))).toString('hex')
}
