import { packTar } from 'modern-tar'
import type { TarEntry } from 'modern-tar'
import { indexFile } from './git-index.ts'
import type { CommittedTree, RepositoryFile } from './git-objects.ts'

const CONFIG = '[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n'

/**
 * A repository as a tar: working tree and `.git`, on branch `main`, clean. Names are relative to its root, everything belongs
 * to root, times are zero; equal input gives equal bytes.
 */
export async function repositoryTar(files: RepositoryFile[], tree: CommittedTree): Promise<Uint8Array> {
  const contents = new Map<string, Uint8Array>()
  for (const { path, content } of files) contents.set(path, Buffer.from(content))
  for (const { id, stored } of tree.objects) contents.set(`.git/objects/${id.slice(0, 2)}/${id.slice(2)}`, stored)
  contents.set('.git/HEAD', Buffer.from('ref: refs/heads/main\n'))
  contents.set('.git/config', Buffer.from(CONFIG))
  contents.set('.git/refs/heads/main', Buffer.from(`${tree.commit}\n`))
  contents.set('.git/index', indexFile(files.map(({ path, content }) => indexEntry(path, content, tree))))

  // Git does not take a directory without these two for a repository, even if they are empty.
  const directories = new Set(['.git/objects/info/', '.git/objects/pack/', '.git/refs/tags/'])
  for (const path of [...contents.keys(), ...directories]) for (const parent of parents(path)) directories.add(parent)
  return packTar([...[...directories].toSorted().map(directoryEntry), ...[...contents].map(fileEntry)])
}

function indexEntry(path: string, content: string, tree: CommittedTree): { path: string; id: string; size: number } {
  return { path, id: tree.blobs.get(path) ?? '', size: Buffer.byteLength(content) }
}

function parents(path: string): string[] {
  const parts = path.split('/').slice(0, -1)
  return parts.map((_, depth) => `${parts.slice(0, depth + 1).join('/')}/`)
}

const OWNER = { uid: 0, gid: 0, mtime: new Date(0) } as const

function directoryEntry(name: string): TarEntry {
  return { header: { ...OWNER, name, type: 'directory', size: 0, mode: 0o755 } }
}

function fileEntry([name, body]: [string, Uint8Array]): TarEntry {
  return { header: { ...OWNER, name, type: 'file', size: body.byteLength, mode: 0o644 }, body }
}
