import type { Task } from '../../contracts/tasks.types.ts'
import { compareText, type HashText } from '../hash-order.ts'

/** The property by which two rows are the same problem. */
export type Sameness = 'id' | 'commit' | 'statement'

/** A training task that is also evaluated. */
export interface Overlap {
  taskId: string
  /** The suite that holds the evaluated task. */
  suite: string
  as: string
  same: Sameness[]
}

export type ComparedTask = Pick<Task, 'taskId' | 'repo' | 'baseCommit' | 'statement'>

interface Keys {
  id: string
  repo: string
  commit: string
  /** Empty for none. */
  statement: string
}

/** Git's short form of a commit. A shorter prefix would be ambiguous. */
const SHORT_COMMIT = 7

/**
 * Finds every training task that an evaluated suite also holds: by id, by repository and base commit (the same repair in the same
 * tree), or by statement. Case, the form of a repository's address, shortened commits and whitespace are ignored.
 * @returns by training task, then by suite in the given order
 */
export function findOverlap({
  train,
  evaluated,
  hash,
}: {
  train: readonly ComparedTask[]
  evaluated: readonly { suite: string; tasks: readonly ComparedTask[] }[]
  hash: HashText
}): Overlap[] {
  const suites = evaluated.map(({ suite, tasks }) => ({ suite, index: indexOf(tasks, hash) }))
  return train.flatMap((task) => {
    const keys = keysOf(task, hash)
    return suites.flatMap(({ suite, index }) =>
      [...matchesOf(keys, index)]
        .sort(([a], [b]) => compareText(a, b))
        .map(([as, same]) => ({ taskId: task.taskId, suite, as, same })),
    )
  })
}

interface Index {
  byId: Map<string, string[]>
  /** Maps repository and the first digits of the commit to complete commits. */
  byCommit: Map<string, { commit: string; taskId: string }[]>
  byStatement: Map<string, string[]>
}

function indexOf(tasks: readonly ComparedTask[], hash: HashText): Index {
  const index: Index = { byId: new Map(), byCommit: new Map(), byStatement: new Map() }
  for (const task of tasks) {
    const { id, repo, commit, statement } = keysOf(task, hash)
    push(index.byId, id, task.taskId)
    if (commit.length >= SHORT_COMMIT) push(index.byCommit, bucket(repo, commit), { commit, taskId: task.taskId })
    // Many rows have no statement, and two missing statements are not equal.
    if (statement !== '') push(index.byStatement, statement, task.taskId)
  }
  return index
}

function matchesOf({ id, repo, commit, statement }: Keys, index: Index): Map<string, Sameness[]> {
  const found = new Map<string, Sameness[]>()
  for (const taskId of index.byId.get(id) ?? []) push(found, taskId, 'id')
  for (const other of index.byCommit.get(bucket(repo, commit)) ?? []) {
    if (commit.startsWith(other.commit) || other.commit.startsWith(commit)) push(found, other.taskId, 'commit')
  }
  for (const taskId of index.byStatement.get(statement) ?? []) push(found, taskId, 'statement')
  return found
}

function keysOf({ taskId, repo, baseCommit, statement }: ComparedTask, hash: HashText): Keys {
  const words = statement.normalize('NFKC').replace(/\s+/g, ' ').trim().toLowerCase()
  return {
    id: taskId.trim().toLowerCase(),
    repo: repositoryName(repo),
    commit: baseCommit.trim().toLowerCase(),
    statement: words === '' ? '' : hash(words),
  }
}

/** Returns `owner/name` for `https://github.com/Owner/Name.git`, `git@github.com:owner/name` and `owner__name`. */
function repositoryName(repo: string): string {
  const path = repo
    .trim()
    .toLowerCase()
    .replace(/^(?:[a-z+]+:\/\/)?(?:[^/@]+@)?(?:www\.)?[a-z0-9-]+(?:\.[a-z0-9-]+)+[/:]/, '')
    .replace(/(?<!\/)\/+$/, '')
    .replace(/\.git$/, '')
  return path.includes('/') ? path : path.replace('__', '/')
}

function bucket(repo: string, commit: string): string {
  return `${repo}@${commit.slice(0, SHORT_COMMIT)}`
}

function push<T>(lists: Map<string, T[]>, key: string, item: T): void {
  const list = lists.get(key)
  if (list === undefined) lists.set(key, [item])
  else list.push(item)
}
