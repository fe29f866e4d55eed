import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { codeVersion, gitRevision } from './code-version.ts'

test('finds the commit of a checkout like Git: on a branch, packed, detached, in a linked work tree, and in none', async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'longhaul-git-'))
  t.after(() => rm(root, { recursive: true, force: true }))
  const repository = join(root, 'repository')
  const tree = join(root, 'tree')
  const git = (directory: string, ...args: string[]): string =>
    execFileSync('git', ['-C', directory, '-c', 'user.name=a', '-c', 'user.email=a@b', ...args], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim()
  execFileSync('git', ['init', '--quiet', repository])
  assert.equal(gitRevision(repository), null)
  git(repository, 'commit', '--quiet', '--allow-empty', '-m', 'one')
  const first = git(repository, 'rev-parse', 'HEAD')
  assert.equal(gitRevision(repository), first)
  git(repository, 'pack-refs', '--all')
  assert.equal(gitRevision(repository), first)
  git(repository, 'worktree', 'add', '--quiet', '-b', 'other', tree)
  assert.equal(gitRevision(tree), first)
  git(tree, 'commit', '--quiet', '--allow-empty', '-m', 'two')
  assert.equal(gitRevision(tree), git(tree, 'rev-parse', 'HEAD'))
  git(tree, 'checkout', '--quiet', '--detach', first)
  assert.equal(gitRevision(tree), first)
  assert.equal(gitRevision(root), null)
})

test('running files have one hash, also outside of a commit', () => {
  const { version, filesSha256, node } = codeVersion()
  assert.match(version, /^\d+\.\d+\.\d+/)
  assert.match(filesSha256, /^[0-9a-f]{64}$/)
  // Of no file at all.
  assert.notEqual(filesSha256, 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
  assert.equal(node, process.version)
  assert.equal(codeVersion(), codeVersion())
})
