import { packTar, type TarEntry } from 'modern-tar'
import { createHash } from 'node:crypto'
import { deflateSync } from 'node:zlib'

const CONFIG = '[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n'

/**
 * Packs a repository into a tar: a clean working tree and `.git`, on branch `main`. Names are relative to its root, all files belong to
 * root, and times are zero, so equal input gives equal bytes.
 */
export async function repositoryTar(files: RepositoryFile[], tree: CommittedTree): Promise<Uint8Array> {
  const contents = new Map<string, Uint8Array>()
  for (const { path, content } of files) contents.set(path, Buffer.from(content))
  for (const { id, stored } of tree.objects) contents.set(`.git/objects/${id.slice(0, 2)}/${id.slice(2)}`, stored)
  contents.set('.git/HEAD', Buffer.from('ref: refs/heads/main\n'))
  contents.set('.git/config', Buffer.from(CONFIG))
  contents.set('.git/refs/heads/main', Buffer.from(`${tree.commit}\n`))
  contents.set('.git/index', indexFile(files.map(({ path, content }) => indexEntry(path, content, tree))))

  // Git only recognises a directory as a repository if these directories exist, even if they are empty.
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

interface IndexEntry {
  path: string
  /** Blob id, hexadecimal. */
  id: string
  size: number
}

const FIXED_BYTES = 62
const REGULAR_FILE = 0o100644

/**
 * Builds `.git/index`, version 2. Times and inode are zero, so Git compares contents once and finds the files unchanged on any file
 * system. Sizes must be correct, because Git treats a different size as a change without reading the file.
 */
function indexFile(entries: IndexEntry[]): Uint8Array {
  const header = Buffer.alloc(12)
  header.write('DIRC', 'ascii')
  header.writeUInt32BE(2, 4)
  header.writeUInt32BE(entries.length, 8)
  const sorted = entries.toSorted((left, right) => Buffer.compare(Buffer.from(left.path), Buffer.from(right.path)))
  const body = Buffer.concat([header, ...sorted.map(entryBytes)])
  return Buffer.concat([body, createHash('sha1').update(body).digest()])
}

function entryBytes({ path, id, size }: IndexEntry): Buffer {
  const name = Buffer.from(path)
  // One to eight zero bytes terminate the name and align the next entry.
  const length = Math.floor((FIXED_BYTES + name.length + 8) / 8) * 8
  const entry = Buffer.alloc(length)
  entry.writeUInt32BE(REGULAR_FILE, 24)
  entry.writeUInt32BE(size, 36)
  entry.write(id, 40, 'hex')
  entry.writeUInt16BE(Math.min(name.length, 0xfff), 60)
  name.copy(entry, FIXED_BYTES)
  return entry
}

/** A file of the repository: regular, not executable. */
export interface RepositoryFile {
  path: string
  content: string
}

interface GitObject {
  id: string
  /** Loose object file: a zlib stream of header and content. */
  stored: Uint8Array
}

interface CommittedTree {
  commit: string
  objects: GitObject[]
  /** Blob id by path. */
  blobs: Map<string, string>
}

interface TreeEntry {
  mode: '100644' | '40000'
  name: string
  id: string
}

/** Creates one commit of the given files, without a parent. Ids are Git's own (SHA-1), computed without Git. */
export function commitFiles(files: RepositoryFile[], message: string): CommittedTree {
  const objects = new Map<string, GitObject>()
  const blobs = new Map<string, string>()
  const write = (type: 'blob' | 'tree' | 'commit', content: Uint8Array): string => {
    const object = gitObject(type, content)
    objects.set(object.id, object)
    return object.id
  }
  for (const { path, content } of files) blobs.set(path, write('blob', Buffer.from(content)))

  const writeTree = (prefix: string): string => {
    const entries = new Map<string, TreeEntry>()
    for (const [path, id] of blobs) {
      if (!path.startsWith(prefix)) continue
      const [name = '', ...rest] = path.slice(prefix.length).split('/')
      if (rest.length === 0) entries.set(name, { mode: '100644', name, id })
      else if (!entries.has(name)) entries.set(name, { mode: '40000', name, id: writeTree(`${prefix}${name}/`) })
    }
    return write('tree', treeContent([...entries.values()]))
  }

  const commit = write('commit', Buffer.from(commitText(writeTree(''), message)))
  return { commit, objects: [...objects.values()], blobs }
}

export function blobId(content: string): string {
  return gitObject('blob', Buffer.from(content)).id
}

function gitObject(type: string, content: Uint8Array): GitObject {
  const whole = Buffer.concat([Buffer.from(`${type} ${content.length}\0`), content])
  return {
    id: createHash('sha1').update(whole).digest('hex'),
    // Stored without compression, because compressors differ between builds of zlib and the archive must not.
    stored: deflateSync(whole, { level: 0 }),
  }
}

/** Git sorts a directory as if its name ended in a slash. */
function treeContent(entries: TreeEntry[]): Uint8Array {
  const key = ({ mode, name }: TreeEntry): Buffer => Buffer.from(mode === '40000' ? `${name}/` : name)
  const sorted = entries.toSorted((left, right) => Buffer.compare(key(left), key(right)))
  return Buffer.concat(
    sorted.flatMap(({ mode, name, id }) => [Buffer.from(`${mode} ${name}\0`), Buffer.from(id, 'hex')]),
  )
}

/** Author and time are fixed, because an id that depends on the clock would make every build another task. */
const SIGNATURE = 'Longhaul <longhaul@localhost> 1735689600 +0000'

function commitText(tree: string, message: string): string {
  return `tree ${tree}\nauthor ${SIGNATURE}\ncommitter ${SIGNATURE}\n\n${message}\n`
}
