import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'

import { resetRepository } from '../../../policies/demo-base/reset-repository.ts'
import type { SandboxHandle } from '../../../src/contracts/sandbox.types.ts'
import {
  type ContractFixture,
  type MakeFixture,
  createPlayer,
  lastTurn,
  never,
  repositoryTar,
} from '../../integration/sandbox-fixture.ts'

export function describeCapture(makeFixture: MakeFixture): void {
  describe('capture of a sandbox', () => {
    const FILES = {
      'keep.py': 'x = 1\n',
      'gone.txt': 'bye\n',
      'dos.txt': 'a\r\nb\r\n',
      'open-end.txt': 'a\nb',
      'raw.bin': Buffer.from([0, 1, 2, 255]),
      '.gitignore': 'ignored/\n',
    }

    let fixture: ContractFixture
    let sandbox: SandboxHandle
    const tar = repositoryTar(FILES)

    before(async () => {
      fixture = await makeFixture('capture', FILES)
      sandbox = await fixture.host.open(fixture.openInput(), never)
    })

    after(() => fixture.dispose())

    /** Resets the repository, runs one command of the agent and captures the patch. */
    async function patchAfter(command: string, mode: 'all' | 'unstaged') {
      sandbox = await resetRepository({ host: fixture.host, sandbox, repoTar: tar, signal: never })
      await createPlayer(fixture.host, sandbox).play(command)
      const captured = await fixture.host.capture(sandbox, { mode, after: lastTurn(sandbox) }, never)
      return { ...captured, text: Buffer.from(captured.patch).toString('latin1') }
    }

    /** Applies the patch to the start and returns the contents of the named files. */
    function applied(patch: Uint8Array, names: string[]): (string | null)[] {
      const folder = mkdtempSync(join(tmpdir(), 'longhaul-test-'))
      try {
        execFileSync('tar', ['-xf', '-'], { cwd: folder, input: tar })
        execFileSync('git', ['apply', '-'], { cwd: folder, input: patch })
        return names.map((name) => {
          try {
            return readFileSync(join(folder, name), 'latin1')
          } catch {
            return null
          }
        })
      } finally {
        rmSync(folder, { recursive: true })
      }
    }

    const WORK = [
      'echo "y = 2" >> keep.py',
      'rm gone.txt',
      'printf "a\\r\\nB\\r\\n" > dos.txt',
      'printf "a\\nc" > open-end.txt',
      'printf "\\000\\376" > raw.bin',
      'mkdir new; printf "caf\\351\\n" > new/latin.txt',
      'echo staged > staged.txt; git add staged.txt',
      'mkdir ignored; echo no > ignored/x',
    ].join('\n')

    test('an unchanged repository gives an empty patch in both modes', async () => {
      assert.deepEqual((await patchAfter('true', 'all')).patch.byteLength, 0)
      assert.deepEqual(await patchAfter('git status', 'unstaged'), { patch: Buffer.alloc(0), lostFiles: 0, text: '' })
    })

    test('all: new, staged, deleted and binary files, CRLF, no final newline and Latin-1 keep their bytes', async () => {
      const { patch, text } = await patchAfter(WORK, 'all')
      const names = [
        'keep.py',
        'gone.txt',
        'dos.txt',
        'open-end.txt',
        'raw.bin',
        'new/latin.txt',
        'staged.txt',
        'ignored/x',
      ]
      const expected = ['x = 1\ny = 2\n', null, 'a\r\nB\r\n', 'a\nc', '\0\xfe', 'caf\xe9\n', 'staged\n', null]
      assert.deepEqual(applied(patch, names), expected)
      assert.match(text, /\\ No newline at end of file\n/)
      assert.ok(text.endsWith('\n'))
    })

    test('all: ignored files count once Git tracks them, staged by force or committed, as they are now', async () => {
      const commands = [
        'mkdir ignored; for name in staged committed dropped loose; do echo $name > ignored/$name; done',
        'git add -f ignored/committed && git -c user.name=a -c user.email=a@b commit -q -m work',
        'git add -f ignored/staged ignored/dropped; rm ignored/dropped; echo later >> ignored/staged',
        // What the agent ignores itself hides nothing that is tracked.
        'echo "*" > .git/info/exclude; echo "y = 2" >> keep.py; git init -q ignored/inner',
      ]
      const { patch } = await patchAfter(commands.join('\n'), 'all')
      const names = ['staged', 'committed', 'dropped', 'loose'].map((name) => `ignored/${name}`)
      assert.deepEqual(applied(patch, [...names, 'keep.py']), [
        'staged\nlater\n',
        'committed\n',
        null,
        null,
        'x = 1\ny = 2\n',
      ])
    })

    test('all: committed work counts, and the repository stays as the agent left it', async () => {
      const commit = 'git add -A && git -c user.name=a -c user.email=a@b commit -q -m work; git rm -q keep.py'
      const { patch } = await patchAfter(`echo new > new.txt; ${commit}`, 'all')
      assert.deepEqual(applied(patch, ['new.txt', 'keep.py']), ['new\n', null])
      const { text } = await createPlayer(fixture.host, sandbox).play('git log --oneline | wc -l; git status --short', {
        turn: 1,
        token: 'b',
      })
      assert.equal(text, '2\nD  keep.py\n')
    })

    test('unstaged: captures only what plain git diff shows and counts the files left out', async () => {
      const { patch, lostFiles } = await patchAfter(WORK, 'unstaged')
      assert.deepEqual(applied(patch, ['keep.py', 'gone.txt', 'raw.bin', 'new/latin.txt', 'staged.txt']), [
        'x = 1\ny = 2\n',
        null,
        '\0\xfe',
        null,
        null,
      ])
      assert.equal(lostFiles, 2)
    })

    test("the agent's git configuration does not change the patch", async () => {
      const settings = [
        'color.ui always',
        'diff.noprefix true',
        'diff.mnemonicPrefix true',
        'core.autocrlf true',
        'diff.context 0',
        'diff.external false',
      ]
      const command = `${settings.map((setting) => `git config ${setting}; git config --global ${setting}`).join('; ')}; echo "y = 2" >> keep.py`
      for (const mode of ['all', 'unstaged'] as const) {
        const { text } = await patchAfter(command, mode)
        assert.match(
          text,
          /^diff --git a\/keep.py b\/keep.py\nindex [0-9a-f.]+ 100644\n--- a\/keep.py\n\+\+\+ b\/keep.py\n@@ -1 \+1,2 @@\n x = 1\n\+y = 2\n$/,
        )
      }
      await createPlayer(fixture.host, sandbox).play('rm /root/.gitconfig', { turn: 1, token: 'b' })
    })

    test("ends the agent's processes before the capture, so that the patch is stable", async () => {
      const { text } = await patchAfter(
        'setsid sh -c "trap : TERM; while :; do echo more >> keep.py; sleep 0.01; done" > /dev/null 2>&1 & until grep -q more keep.py; do sleep 0.05; done',
        'all',
      )
      const again = await fixture.host.capture(sandbox, { mode: 'all', after: lastTurn(sandbox) }, never)
      assert.equal(Buffer.from(again.patch).toString('latin1'), text)
      assert.match(text, /\+more/)
    })

    // The lease loop sleeps between two checks, and a sweep also ends that sleep: each sweep used to count as a round without a sign
    // of life.
    test('a sandbox survives captures that repeat faster than its lease is renewed', async () => {
      const brief = await fixture.host.open(fixture.openInput({ placement: 7, leaseMs: 3_000 }), never)
      for (let round = 0; round < 4; round += 1) await fixture.host.capture(brief, { mode: 'all', after: null }, never)
      assert.equal((await createPlayer(fixture.host, brief).play('echo on')).text, 'on\n')
      await fixture.host.close(brief)
    })

    test('reports no patch and the reason when the agent has removed its repository', async () => {
      const { patch, failure } = await patchAfter('rm -rf .git', 'all')
      assert.equal(patch.byteLength, 0)
      assert.ok(failure !== undefined && failure.length > 0)
    })

    test('a reset sandbox has the new files and start commit, an empty journal and its first state', async () => {
      const before = sandbox.startCommit
      const other = repositoryTar({ 'other.txt': 'o\n' })
      const fresh = await resetRepository({ host: fixture.host, sandbox, repoTar: other, signal: never })
      assert.notEqual(fresh.startCommit, before)
      const { text, state } = await createPlayer(fixture.host, fresh).play('ls -A; git status --short; pwd')
      assert.equal(text, '.git\nother.txt\n/testbed\n')
      assert.equal(state.openFile, null)
    })

    const HEADS = {
      'a branch with a file of its own': 'git checkout -qb topic/one',
      'a packed branch': 'git pack-refs --all',
      'no branch': 'git checkout -q --detach',
      'a repository whose .git is a file': 'mv .git inside && echo "gitdir: inside" > .git',
    }

    for (const [where, script] of Object.entries(HEADS)) {
      test(`the start commit is HEAD: ${where}`, async () => {
        const folder = mkdtempSync(join(tmpdir(), 'longhaul-test-'))
        try {
          execFileSync('tar', ['-xf', '-'], { cwd: folder, input: repositoryTar({ 'where.txt': where }) })
          execFileSync('sh', ['-c', script], { cwd: folder })
          const head = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: folder, encoding: 'utf8' }).trim()
          const repoTar = execFileSync('tar', ['--owner=0', '--group=0', '-cf', '-', '.'], { cwd: folder })
          const fresh = await resetRepository({ host: fixture.host, sandbox, repoTar, signal: never })
          assert.equal(fresh.startCommit, head)
        } finally {
          rmSync(folder, { recursive: true })
        }
      })
    }
  })
}
