/** Reads the histories of repositories from a mirror, a bundle or an address, with git and without running their code. */
import { existsSync, statSync } from 'node:fs'
import { rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join, resolve } from 'node:path'
import { withDirectoryLock } from '../../platform/directory-lock.ts'
import { sha256Hex, sha256OfFile } from '../../platform/hash.ts'
import { withoutUser } from '../../platform/quote-address.ts'
import { type CommandResult, runCommand } from '../../platform/run-command.ts'
import type { LonghaulError } from '../../contracts/errors.ts'
import { buildFailure, diskFull, saysDiskFull } from './build-failure.ts'
import { makeDirectory } from '../../platform/files.ts'
import { sweepTempFiles, tempName } from '../../platform/temp-files.ts'

/** Allows histories of hundreds of megabytes on a slow connection or disk. */
const CLONE_TIMEOUT_MS = 60 * 60_000
const READ_TIMEOUT_MS = 10 * 60_000

export interface OpenRepositoryInput {
  /** As `owner/name`. */
  repo: string
  /** A directory of mirrors and bundles, or a prefix of addresses. @default the public host of the data sets */
  repositories: string
  /** Directory for copies of addresses and bundles. */
  cacheDir: string
  log: (line: string) => void
  signal: AbortSignal
}

export interface Repository {
  /** Its location, for messages. */
  place: string
  /** @throws LonghaulError `Image.BuildFailed` at the stage `source` */
  requireCommit(commit: string): Promise<void>
  hasCommit(commit: string): Promise<boolean>
  /** Returns a file's text at a commit; null if it does not exist. */
  read(commit: string, path: string): Promise<string | null>
  /** Tags of the commit and its ancestors that are not newer than the commit. Installations read their version from tags. */
  tags(commit: string): Promise<Tag[]>
  /** Writes a pack with exactly the commit, its ancestors and these tags into a folder `objects/pack`.
   *  @returns the path without its extension */
  pack(input: { commit: string; tags: readonly Tag[]; folder: string }): Promise<string>
}

interface Tag {
  /** As `refs/tags/v1` */
  ref: string
  /** Id of the tag object if there is one, otherwise of the commit. */
  id: string
}

/** The public host of the data sets' repositories. */
export const PUBLIC_REPOSITORIES = 'https://github.com'

/**
 * Git writes a pack beside its own objects before it moves it. A separate object directory keeps it from writing into the mirror, which
 * may be read-only or on another file system.
 */
const PACK = [
  'cd "$1"',
  'objects="$(git -c "safe.directory=*" rev-parse --git-path objects)"',
  'case "$objects" in /*) ;; *) objects="$PWD/$objects" ;; esac',
  'export GIT_OBJECT_DIRECTORY="${2%/pack}" GIT_ALTERNATE_OBJECT_DIRECTORIES="\\"$objects\\""',
  'git -c "safe.directory=*" -c pack.threads=1 pack-objects --revs --quiet --delta-base-offset "$2/pack" <"$3"',
].join(' && ')

/** Whether `--repos` is a prefix of addresses; otherwise it is a directory. */
export function areAddresses(repositories: string): boolean {
  return /^[a-z][a-z+]*:\/\//.test(repositories)
}

/** @throws LonghaulError `Image.BuildFailed` at the stage `source` */
export async function openRepository(input: OpenRepositoryInput): Promise<Repository> {
  const { repositories, repo } = input
  const isAddress = areAddresses(repositories)
  const git = isAddress ? await cloneOf(input) : await localOf(input)
  const isCopy = git.startsWith(join(input.cacheDir, 'repositories'))
  await refuseShallow(git, repo)
  const look = (commit: string): Promise<CommandResult> => runGit(git, ['cat-file', '-e', `${commit}^{commit}`])
  const hasCommit = async (commit: string): Promise<boolean> => (await look(commit)).exitCode === 0
  const damaged = (said: string): LonghaulError =>
    buildFailure({
      stage: 'source',
      message: `The repository of ${repo} is damaged or incomplete: ${reasonOf(said)}. ${isCopy ? `Remove the copy, which is then made again: rm -r ${git}` : `Look at it with git -C ${git} fsck, and copy it again`}`,
      details: { repository: git },
    })

  return {
    place: git,
    hasCommit,
    async requireCommit(commit) {
      const { exitCode, tail } = await look(commit)
      if (exitCode === 0) return
      // Of an object that is not there, Git says only that.
      if (DAMAGE.test(tail)) throw damaged(tail)
      const from = addressOf(input)
      const fetched = isAddress ? await runGit(git, ['fetch', '-q', '--', from, commit], CLONE_TIMEOUT_MS) : null
      if (fetched !== null && (await hasCommit(commit))) return
      const answer =
        fetched === null || fetched.exitCode === 0
          ? ''
          : `, whose address answers: ${withoutUser(reasonOf(fetched.tail))}`
      throw buildFailure({
        stage: 'source',
        message: `Expected commit ${commit} in the repository of ${repo}${answer}. Fetch it there: git -C ${git} fetch ADDRESS ${commit}; or name other mirrors with --repos`,
        details: { repository: git },
      })
    },
    async read(commit, path) {
      // Of a folder, and of no path at all, `show` would print a list.
      const { exitCode, stdout } = await runGit(git, ['cat-file', 'blob', `${commit}:${path}`])
      return exitCode === 0 ? stdout : null
    },
    async tags(commit) {
      const { stdout: made } = await runGit(git, ['show', '-s', '--format=%ct', commit])
      const format = '--format=%(creatordate:unix) %(objectname) %(refname)'
      const { stdout } = await runGit(git, ['for-each-ref', `--merged=${commit}`, format, 'refs/tags'])
      return stdout.split('\n').flatMap((line) => {
        const [, date, id, ref] = /^(\d*) ([0-9a-f]+) (\S+)$/.exec(line) ?? []
        if (id === undefined || ref === undefined || Number(date) > Number(made.trim())) return []
        return [{ ref, id }]
      })
    },
    async pack({ commit, tags, folder }) {
      const wanted = join(folder, 'wanted')
      await writeFile(wanted, [commit, ...tags.map(({ id }) => id), ''].join('\n'))
      const { exitCode, stdout, tail } = await runCommand({
        command: '/bin/sh',
        args: ['-c', PACK, 'pack', git, folder, wanted],
        env: gitEnvironment(),
        timeoutMs: READ_TIMEOUT_MS,
        signal: input.signal,
      })
      await rm(wanted)
      if (exitCode === 0) return join(folder, `pack-${stdout.trim()}`)
      if (saysDiskFull(tail)) throw diskFull({ stage: 'source', said: tail, of: 'host' })
      throw damaged(tail)
    },
  }
}

/** Names that a mirror or a bundle of a repository may have, in order of precedence. */
export function mirrorNames(repo: string): string[] {
  return [repo.replace('/', '__'), repo].flatMap((name) => [name, `${name}.git`, `${name}.bundle`])
}

async function localOf(input: OpenRepositoryInput): Promise<string> {
  const { repo, repositories } = input
  const directory = resolve(repositories)
  const found = mirrorNames(repo)
    .map((name) => join(directory, name))
    .find((path) => existsSync(path))
  if (found === undefined) {
    throw buildFailure({
      stage: 'source',
      message: `Expected a mirror or a bundle of ${repo} in ${directory}, named ${mirrorNames(repo).join(', ')}. Make one: git clone --mirror ${PUBLIC_REPOSITORIES}/${repo} ${join(directory, mirrorNames(repo)[1] ?? '')}`,
    })
  }
  if (statSync(found).isFile()) return bundleOf(input, found)
  const { exitCode, tail } = await runGit(found, ['rev-parse', '--git-dir'])
  if (exitCode === 0) return found
  throw buildFailure({
    stage: 'source',
    message: `Expected a git repository or a bundle of ${repo} at ${found}: ${reasonOf(tail)}. Copy it again: git clone --mirror ${PUBLIC_REPOSITORIES}/${repo} ${found}`,
  })
}

async function bundleOf(input: OpenRepositoryInput, file: string): Promise<string> {
  const copy = join(input.cacheDir, 'repositories', `bundle-${(await sha256OfFile(file)).slice(0, 24)}.git`)
  await cloneOnce({ ...input, from: file, copy })
  return copy
}

function addressOf({ repositories, repo }: OpenRepositoryInput): string {
  return `${repositories.replace(/\/+$/, '')}/${repo}${repositories.startsWith('file://') ? '' : '.git'}`
}

async function cloneOf(input: OpenRepositoryInput): Promise<string> {
  const from = addressOf(input)
  const copy = join(
    input.cacheDir,
    'repositories',
    `${input.repo.replace('/', '__')}-${sha256Hex(from).slice(0, 12)}.git`,
  )
  await cloneOnce({ ...input, from, copy })
  return copy
}

/** Clones atomically, so that an interrupted clone leaves nothing that a later build takes for a repository. */
async function cloneOnce(input: OpenRepositoryInput & { from: string; copy: string }): Promise<void> {
  const { from, copy, log, signal, repo } = input
  if (existsSync(copy)) return
  await makeDirectory(join(input.cacheDir, 'repositories'))
  const lock = { path: `${copy}.lock`, timeoutMs: CLONE_TIMEOUT_MS, signal }
  await withDirectoryLock(lock, async () => {
    if (existsSync(copy)) return
    log(`${repo}: copying its history`)
    // A killed command leaves a part of the copy.
    const prefix = `${basename(copy)}.new-`
    await sweepTempFiles(dirname(copy), Date.now(), prefix)
    const fresh = join(dirname(copy), `${prefix}${tempName()}`)
    try {
      const { exitCode, tail } = await runCommand({
        command: 'git',
        args: ['clone', '-q', '--mirror', '--', from, fresh],
        env: gitEnvironment(),
        timeoutMs: CLONE_TIMEOUT_MS,
        signal,
      })
      if (exitCode !== 0) {
        if (saysDiskFull(tail)) throw diskFull({ stage: 'source', said: tail, of: 'host' })
        const fix = isAbsolute(from)
          ? `Make a bundle of the whole repository: git bundle create ${from} --all, and git bundle verify tells whether it is whole`
          : 'Correct the address, or name a directory of mirrors or bundles with --repos'
        throw buildFailure({
          stage: 'source',
          message: `The repository of ${repo} could not be copied: ${withoutUser(reasonOf(tail))}. ${fix}`,
          details: { from: withoutUser(from) },
        })
      }
      // Git notes the address, and a user or password with it.
      await runGit(fresh, ['config', 'remote.origin.url', withoutUser(from)])
      await rename(fresh, copy)
    } finally {
      await rm(fresh, { recursive: true, force: true })
    }
  })
}

/** What Git says of an object or a pack that it cannot read. */
const DAMAGE = /corrupt|inflate|packfile|pack file|\.idx|bad object|bad tree|unpack|mmap|lazy fetch/i

/** Git says why at first, and ends with advice that is the same for every reason. */
function reasonOf(tail: string): string {
  if (tail === 'spawn git ENOENT') return 'this host has no git: install it'
  const lines = tail.split('\n').filter((line) => line.trim() !== '' && !/^(?:warning|hint): /.test(line))
  return (lines[0] ?? 'git does not say why').replace(/^(?:error|fatal): /, '').replace(/[.:\s]+$/, '')
}

/** Refuses a shallow copy: its commits name missing parents, so a pack of it would be broken. */
async function refuseShallow(git: string, repo: string): Promise<void> {
  const { stdout } = await runGit(git, ['rev-parse', '--is-shallow-repository'])
  if (stdout.trim() !== 'true') return
  throw buildFailure({
    stage: 'source',
    message: `Expected the whole history of ${repo}, got a shallow copy. Complete it: git -C ${git} fetch --unshallow`,
  })
}

/** Runs git for reading only: no hooks, no lazy fetches, no replaced objects. */
function runGit(directory: string, args: string[], timeoutMs = READ_TIMEOUT_MS): Promise<CommandResult> {
  return runCommand({
    command: 'git',
    args: ['-C', directory, '-c', 'safe.directory=*', '-c', 'core.hooksPath=/dev/null', ...args],
    // Git would take a repository around a directory that is none.
    env: { ...gitEnvironment(), GIT_CEILING_DIRECTORIES: dirname(directory) },
    timeoutMs,
  })
}

function gitEnvironment(): NodeJS.ProcessEnv {
  const { GIT_DIR: _, GIT_WORK_TREE: __, GIT_INDEX_FILE: ___, ...env } = process.env
  return { ...env, GIT_TERMINAL_PROMPT: '0', GIT_NO_LAZY_FETCH: '1', GIT_NO_REPLACE_OBJECTS: '1', LC_ALL: 'C' }
}
