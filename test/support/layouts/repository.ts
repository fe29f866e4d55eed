/** A problem as a Git repository, with its patches as Git writes them. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Problem } from './problem.ts'

export interface ProblemRepository {
  baseCommit: string
  goldPatch: string
  testPatch: string
  /** Working tree and `.git` as an archive for the root of a file system. */
  tar: Buffer
}

/** Fixed, so that equal content has the same commit everywhere. */
const IDENTITY = {
  GIT_AUTHOR_NAME: 'Shop',
  GIT_AUTHOR_EMAIL: 'shop@example.invalid',
  GIT_AUTHOR_DATE: '2025-01-01T00:00:00Z',
  GIT_COMMITTER_NAME: 'Shop',
  GIT_COMMITTER_EMAIL: 'shop@example.invalid',
  GIT_COMMITTER_DATE: '2025-01-01T00:00:00Z',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_SYSTEM: '/dev/null',
}

export interface RepositoryOptions {
  /** Its folder in the image, such as `testbed`. */
  directory: string
  /** Whether a commit "SWE-bench" follows the base commit, as in the images of the conda layout. */
  setUpCommit: boolean
}

export function createRepository(problem: Problem, { directory, setUpCommit }: RepositoryOptions): ProblemRepository {
  const root = mkdtempSync(join(tmpdir(), 'longhaul-layout-'))
  const folder = join(root, directory)
  mkdirSync(folder)
  const options = { cwd: folder, env: { ...process.env, ...IDENTITY }, maxBuffer: 1 << 26 }
  const git = (...args: string[]): string => execFileSync('git', args, { ...options, encoding: 'utf8' })
  const lay = (files: Record<string, string>): void => {
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true })
      const isProgram = content.startsWith('#!')
      writeFileSync(join(folder, name), content, { mode: isProgram ? 0o755 : 0o644 })
    }
  }
  /** The changes of the files as a patch; the tree is restored afterwards. */
  const patchOf = (files: Record<string, string>): string => {
    lay(files)
    git('add', '-A')
    const patch = git('diff', '--cached')
    git('reset', '-q', '--hard')
    return patch
  }
  try {
    git('init', '-q', '-b', 'main', '--template=')
    lay(problem.files)
    git('add', '-A')
    git('commit', '-q', '-m', 'Open the shop')
    const baseCommit = git('rev-parse', 'HEAD').trim()
    const goldPatch = patchOf(problem.repair)
    const testPatch = patchOf(problem.tests)
    if (setUpCommit) git('commit', '-q', '--allow-empty', '-am', 'SWE-bench')
    // Otherwise the object store would contain the objects of the patches.
    git('prune', '--expire=now')
    const tar = execFileSync('tar', ['--owner=0', '--group=0', '--numeric-owner', '-cf', '-', directory], {
      ...options,
      cwd: root,
    })
    return { baseCommit, goldPatch, testPatch, tar }
  } finally {
    rmSync(root, { recursive: true })
  }
}
