import type { RowColumns } from './row-columns.ts'

/**
 * An image reference as an engine takes it: the repository in lower case, `:latest` where neither tag nor digest is given.
 * Null when it cannot be one.
 */
export function fullReference(text: string): string | null {
  const [name = '', digest, ...more] = text.split('@')
  const tag = /:([\w][\w.-]{0,127})$/.exec(name)
  const repository = (tag === null ? name : name.slice(0, tag.index)).toLowerCase()
  const isName = /^[a-z0-9][a-z0-9.-]*(?::\d+)?(?:\/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*$/.test(repository)
  const isDigest = digest === undefined || /^sha256:[0-9a-f]{64}$/.test(digest)
  if (!isName || !isDigest || more.length > 0) return null
  if (digest !== undefined) return `${repository}${tag?.[0] ?? ''}@${digest}`
  return `${repository}${tag?.[0] ?? ':latest'}`
}

/** The name that upstream's harnesses derive: a registry forbids two underscores in a row, so they become `_1776_`. */
export function derivedImage(namespace: 'swebench' | 'swerebench', taskId: string): string {
  return `${namespace}/sweb.eval.x86_64.${taskId.toLowerCase().replaceAll('__', '_1776_')}:latest`
}

interface RowImageInput {
  columns: RowColumns
  taskId: string
  /** Columns that may name the image, first the one that counts most. */
  names: string[]
  /** Used where the row names none; null: such a row is refused. */
  fallback: string | null
}

/**
 * The image that a row names, or the derived one. A row whose official-looking name belongs to another task is refused: its
 * tests would run in a foreign repository.
 */
export function rowImage({ columns, taskId, names, fallback }: RowImageInput): string {
  const column = names.find((name) => columns.optionalText(name) !== null)
  if (column === undefined) {
    if (fallback !== null) return fallback
    throw columns.refuse(names.join(' or '), 'an image reference', null)
  }
  const text = columns.text(column)
  const image = fullReference(text)
  if (image === null) throw columns.refuse(column, 'an image reference', text)
  const owner = /sweb\.eval\.[^.]+\.([^:@/]+)(?:[:@]|$)/.exec(image)?.[1]
  if (owner !== undefined && !isNameOf(owner, taskId)) {
    throw columns.refuse(column, `the image of ${taskId}`, text)
  }
  // V2's images are named by pull request and commit.
  const commit = image.includes('swerebenchv2/') ? /:\d+-([0-9a-f]{7})$/.exec(image)?.[1] : undefined
  if (commit !== undefined && !columns.text('base_commit').startsWith(commit)) {
    throw columns.refuse(column, 'the image of its base_commit', text)
  }
  return image
}

/** Tasks of the leaderboard whose statement lists the interface share the image of the plain task. */
function isNameOf(owner: string, taskId: string): boolean {
  const plain = owner.replaceAll('_1776_', '__')
  const id = taskId.toLowerCase()
  return plain === id || plain === id.replace(/_interface$/, '')
}
