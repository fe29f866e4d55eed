import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { openRepository, type Repository } from './repository.ts'

let mirrors: string
let cacheDir: string

before(async () => {
  mirrors = await mkdtemp(join(tmpdir(), 'longhaul-mirrors-'))
  cacheDir = join(mirrors, 'cache')
  const git = (...args: string[]): void => void execFileSync('git', ['-C', mirrors, ...args])
  // The directory of mirrors lies within a repository of another project.
  git('init', '-q')
  await mkdir(join(mirrors, 'folder'))
  await writeFile(join(mirrors, 'folder/file.txt'), 'text\n')
  git('add', 'folder')
  git('-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-q', '--allow-empty', '-m', 'first')
  await mkdir(join(mirrors, 'owner__empty'))
  await writeFile(join(mirrors, 'owner__text.bundle'), 'no bundle')
  execFileSync('mkfifo', [join(mirrors, 'owner__pipe')])
  execFileSync('git', ['clone', '-q', '--mirror', mirrors, join(mirrors, 'owner__whole.git')])
})
after(() => rm(mirrors, { recursive: true }))

function open(repo: string): Promise<Repository> {
  return openRepository({ repo, repositories: mirrors, cacheDir, log: () => {}, signal: AbortSignal.timeout(60_000) })
}

test('what is no repository is refused with its path, also within a repository of another project', async () => {
  for (const [repo, message] of [
    ['owner/empty', /Expected a git repository or a bundle: fatal: not a git repository/],
    ['owner/pipe', /Expected a git repository or a bundle: fatal: /],
    ['owner/text', /The repository of owner\/text could not be copied: /],
    ['owner/absent', /Expected a mirror or a bundle of owner\/absent in /],
  ] as const) {
    await assert.rejects(open(repo), { code: 'Image.BuildFailed', message })
  }
  assert.deepEqual(
    (await readdir(join(cacheDir, 'repositories'))).filter((name) => !name.endsWith('.lock')),
    [],
  )
})

test('a commit that the mirror lacks is named with what to fetch', async () => {
  const repository = await open('owner/whole')
  await assert.rejects(repository.requireCommit('0123456'), {
    code: 'Image.BuildFailed',
    message: /Expected commit 0123456 in the repository of owner\/whole\. Fetch it there/,
  })
  assert.equal(await repository.read('0123456', '../../etc/passwd'), null)
})

test('a file of a commit is its text; a folder, no path and a path outside are none', async () => {
  const repository = await open('owner/whole')
  const commit = execFileSync('git', ['-C', mirrors, 'rev-parse', 'HEAD'], { encoding: 'utf8' }).trim()
  assert.equal(await repository.read(commit, 'folder/file.txt'), 'text\n')
  for (const path of ['folder', '', '../../etc/passwd', '/etc/passwd', 'folder/file.txt\n', '--help']) {
    assert.equal(await repository.read(commit, path), null, path)
  }
})
