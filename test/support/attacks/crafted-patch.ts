import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

export interface CraftedPatchInput {
  /** Archive of a repository with its `.git`; the paths of the edits are relative to its root. */
  tar: Uint8Array
  /** Folder of the repository inside the archive. @default . */
  directory?: string
  /** New content by path; null deletes. */
  edits: Record<string, string | Uint8Array | null>
}

/** The patch that the capture would take after these edits. */
export function craftPatch({ tar, directory = '.', edits }: CraftedPatchInput): Buffer {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-patch-'))
  const root = join(folder, directory)
  try {
    execFileSync('tar', ['-xf', '-', '-C', folder], { input: tar })
    for (const [path, content] of Object.entries(edits)) {
      const full = join(root, path)
      if (content === null) rmSync(full)
      else {
        mkdirSync(dirname(full), { recursive: true })
        writeFileSync(full, content)
      }
    }
    const git = (...words: string[]): Buffer =>
      execFileSync('git', ['-c', 'safe.directory=*', '-c', 'core.attributesFile=/dev/null', ...words], {
        cwd: root,
        env: { ...process.env, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1', GIT_ATTR_NOSYSTEM: '1' },
        maxBuffer: 1 << 28,
      })
    git('add', '-A', '-f')
    return git('diff', '--cached', '--binary', '--full-index', '--no-color', '--no-renames', 'HEAD')
  } finally {
    rmSync(folder, { recursive: true })
  }
}
