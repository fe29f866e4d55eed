import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { after, before, test } from 'node:test'
import { useEnvironment } from '../../../test/support/environment.ts'
import { tempName } from '../../platform/temp-files.ts'
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
    ['owner/empty', /Expected a git repository or a bundle of owner\/empty at .*owner__empty: not a git repository/],
    ['owner/pipe', /Expected a git repository or a bundle of owner\/pipe at .*owner__pipe: /],
    ['owner/text', /owner\/text could not be copied: .*text\.bundle' does not look like .*bundle.* git bundle create/],
    ['owner/absent', /Expected a mirror or a bundle of owner\/absent in /],
  ] as const) {
    await assert.rejects(open(repo), { code: 'Image.BuildFailed', message })
  }
  assert.deepEqual(
    (await readdir(join(cacheDir, 'repositories'))).filter((name) => !name.endsWith('.lock')),
    [],
  )
})

test('a damaged bundle or mirror is named with the reason, and the same name works once it is whole', async () => {
  const whole = join(mirrors, 'owner__whole.git')
  const commit = execFileSync('git', ['-C', whole, 'rev-parse', 'HEAD'], { encoding: 'utf8' }).trim()
  const bundle = join(mirrors, 'owner__cut.bundle')
  const write = (): void => void execFileSync('git', ['-C', whole, 'bundle', 'create', '-q', bundle, '--all'])
  write()
  await truncate(bundle, (await stat(bundle)).size - 40)
  await assert.rejects(open('owner/cut'), {
    message: /owner\/cut could not be copied: early EOF\. Make a bundle .*git bundle create .*owner__cut\.bundle --all/,
  })
  write()
  assert.equal(await (await open('owner/cut')).hasCommit(commit), true)

  const mirror = join(mirrors, 'owner__torn.git')
  execFileSync('git', ['clone', '-q', '--mirror', '--no-hardlinks', whole, mirror])
  execFileSync('git', ['-C', mirror, 'repack', '-adq'])
  const folder = join(mirror, 'objects/pack')
  const pack = join(folder, (await readdir(folder)).find((name) => name.endsWith('.pack')) ?? '')
  await chmod(pack, 0o600)
  await truncate(pack, (await stat(pack)).size - 30)
  const torn = await open('owner/torn')
  await assert.rejects(torn.requireCommit(commit), {
    code: 'Image.BuildFailed',
    message: /owner\/torn is damaged or incomplete: packfile .*\. Look at it with git -C .*owner__torn\.git fsck/,
  })

  const partial = join(mirrors, 'owner__partial.git')
  execFileSync('git', ['-C', whole, 'config', 'uploadpack.allowFilter', 'true'])
  execFileSync('git', ['clone', '-q', '--mirror', '--filter=blob:none', `file://${whole}`, partial])
  const objects = join(cacheDir, 'objects/pack')
  await mkdir(objects, { recursive: true })
  await assert.rejects((await open('owner/partial')).pack({ commit, tags: [], folder: objects }), {
    message: /owner\/partial is damaged or incomplete: could not fetch .* copy it again/,
  })
})

test('an address that does not answer, and one without the commit: what Git said at first, without a password', async () => {
  const at = (repositories: string, repo = 'owner/x') =>
    openRepository({ repo, repositories, cacheDir, log: () => {}, signal: AbortSignal.timeout(60_000) })
  await assert.rejects(at('http://user:pass-word@127.0.0.1:9'), (error: Error) => {
    assert.match(error.message, /could not be copied: unable to access 'http:\/\/127.* Correct the address/)
    return !error.message.includes('pass-word')
  })
  await assert.rejects(
    at(`file://${mirrors}`, 'owner/absent'),
    /absent' does not appear to be a git repository\. Correct/,
  )
  const repository = await at(`file://${mirrors}`, 'owner__whole.git')
  const commit = '0123456789abcdef0123456789abcdef01234567'
  // A user in an address is as much as a password: hosts take tokens there.
  const named = await at(`file://token-word@localhost${mirrors}`, 'owner__whole.git')
  assert.ok(!(await readFile(join(named.place, 'config'), 'utf8')).includes('token-word'), 'none stays on the disk')
  await assert.rejects(repository.requireCommit(commit), /whose address answers: .*not our ref 0123/)
})

test('what a killed command left of a copy is removed by the next one, and that of a living one is not', async () => {
  const own = join(mirrors, 'own-cache')
  const input = {
    repo: 'owner/bundled',
    repositories: mirrors,
    cacheDir: own,
    log: () => {},
    signal: AbortSignal.timeout(60_000),
  }
  const bundle = join(mirrors, 'owner__bundled.bundle')
  execFileSync('git', ['-C', join(mirrors, 'owner__whole.git'), 'bundle', 'create', '-q', bundle, '--all'])
  const { place } = await openRepository(input)
  await rm(place, { recursive: true })
  // A name as of a process that has ended, and one of this process.
  const dead = spawnSync('true').pid
  const [host] = tempName().split('.')
  await mkdir(`${place}.new-${host}.${dead}-1.x`)
  const living = `${place}.new-${tempName()}`
  await mkdir(living)
  await openRepository(input)
  const left = (await readdir(join(own, 'repositories'))).filter((name) => !name.endsWith('.lock'))
  assert.deepEqual(left.toSorted(), [basename(place), basename(living)].toSorted())
})

test('a host without git says so', async (t) => {
  useEnvironment(t, { PATH: cacheDir })
  await assert.rejects(open('owner/whole'), /this host has no git: install it/)
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
