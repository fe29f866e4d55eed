/** The scrub on histories as real repositories have them: objects that git of today would not write. */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const script = fileURLToPath(new URL('./runner/scrub.sh', import.meta.url))

/** The first commit has a time zone that is none and a tree with zero-padded modes, as flask's and requests' histories do. */
function oldRepository(t: { after(undo: () => void): void }) {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-scrub-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const git = (args: string[], input?: Buffer): string =>
    execFileSync('git', ['-C', folder, '-c', 'user.name=A', '-c', 'user.email=a@b', ...args], {
      ...(input === undefined ? {} : { input }),
      encoding: 'utf8',
    }).trim()
  git(['init', '-q', '-b', 'main'])
  writeFileSync(join(folder, 'a'), '1\n')
  const blob = git(['hash-object', '-w', 'a'])
  const literally = (type: string, body: Buffer): string =>
    git(['hash-object', '-t', type, '--literally', '-w', '--stdin'], body)
  const tree = literally('tree', Buffer.concat([Buffer.from('0100644 a\0'), Buffer.from(blob, 'hex')]))
  const person = 'A <a@b> 1313584730 +51800'
  const first = literally('commit', Buffer.from(`tree ${tree}\nauthor ${person}\ncommitter ${person}\n\nold\n`))
  git(['add', 'a'])
  const head = git(['commit-tree', git(['write-tree']), '-p', first, '-m', 'new'])
  git(['reset', '-q', '--hard', head])
  return { folder, git, head }
}

test('scrubs an old history with fsck warnings together with its lost objects', (t) => {
  const { folder, git, head } = oldRepository(t)
  const lost = git(['hash-object', '-w', '--stdin'], Buffer.from('the repair\n'))
  git(['branch', 'fix', git(['commit-tree', 'HEAD^{tree}', '-p', head, '-m', 'fix'])])
  const { status, stderr } = spawnSync('/bin/sh', [script, folder], { encoding: 'utf8' })
  assert.deepEqual([status, stderr], [0, ''])
  assert.equal(git(['rev-parse', 'HEAD']), head)
  assert.equal(git(['log', '--all', '--format=%s']), 'new\nold')
  assert.notEqual(spawnSync('git', ['-C', folder, 'cat-file', '-e', lost]).status, 0)
})

test('refuses a history that lacks an object of its own', (t) => {
  const { folder, git } = oldRepository(t)
  const blob = git(['rev-parse', 'HEAD:a'])
  rmSync(join(folder, '.git/objects', blob.slice(0, 2), blob.slice(2)))
  const { status } = spawnSync('/bin/sh', [script, folder], { encoding: 'utf8' })
  assert.equal(status, 4)
})

test('neither the scrub nor the check starts the transport of a partial clone that lacks its commit', (t) => {
  const { folder, git, head } = oldRepository(t)
  const ran = join(folder, 'ran')
  git(['config', 'core.repositoryFormatVersion', '1'])
  git(['config', 'extensions.partialClone', 'far'])
  git(['config', 'remote.far.promisor', 'true'])
  git(['config', 'remote.far.url', folder])
  git(['config', 'remote.far.uploadpack', `touch ${ran}; false`])
  rmSync(join(folder, '.git/objects', head.slice(0, 2), head.slice(2)))
  const check = fileURLToPath(new URL('./runner/check-repository.sh', import.meta.url))
  for (const words of [
    [script, folder],
    [check, folder, head],
  ]) {
    assert.equal(spawnSync('/bin/sh', words).status, 3, words[0])
    assert.equal(existsSync(ran), false, words[0])
  }
  // It does run where nothing keeps Git from it.
  assert.notEqual(spawnSync('git', ['-C', folder, 'log']).status, 0)
  assert.equal(existsSync(ran), true)
})
