import { createHash } from 'node:crypto'
import { deflateSync } from 'node:zlib'

/** A file of the repository: plain, not executable. */
export interface RepositoryFile {
  path: string
  content: string
}

export interface GitObject {
  id: string
  /** Loose object file: zlib stream of header and content. */
  stored: Uint8Array
}

export interface CommittedTree {
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

/** One commit of the given files, without parent. Ids are Git's own (SHA-1), computed without Git. */
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
    // Stored, not compressed: compressors differ between builds of zlib, and the archive must not.
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

/** Author and time are fixed: an id that depends on the clock would make every build another task. */
const SIGNATURE = 'Longhaul <longhaul@localhost> 1735689600 +0000'

function commitText(tree: string, message: string): string {
  return `tree ${tree}\nauthor ${SIGNATURE}\ncommitter ${SIGNATURE}\n\n${message}\n`
}
