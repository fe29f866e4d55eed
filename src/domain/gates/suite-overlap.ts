import type { Task } from '../../contracts/tasks.types.ts'
import { compareText, type HashText } from '../hash-order.ts'

/** What makes two rows the same problem. */
export type Sameness = 'id' | 'commit' | 'statement'

/** A training task that is evaluated too. */
export interface Overlap {
  taskId: string
  /** The evaluated one: which suite holds it and its id there. */
  suite: string
  as: string
  same: Sameness[]
}

export type ComparedTask = Pick<Task, 'taskId' | 'repo' | 'baseCommit' | 'statement'>

interface Keys {
  id: string
  repo: string
  commit: string
  statement: string | null
}

/** As git shows a commit in short; anything shorter could be any commit. */
const SHORT_COMMIT = 7

/**
 * Every training task that an evaluated suite holds too: by id, by repository and base commit (the same repair in the same tree),
 * or by statement. Spelling hides nothing: case, a repository's address, a shortened commit and white space do not count.
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
  /** Repository and the commit's first digits lead to whole commits. */
  byCommit: Map<string, { commit: string; taskId: string }[]>
  byStatement: Map<string, string[]>
}

function indexOf(tasks: readonly ComparedTask[], hash: HashText): Index {
  const index: Index = { byId: new Map(), byCommit: new Map(), byStatement: new Map() }
  for (const task of tasks) {
    const { id, repo, commit, statement } = keysOf(task, hash)
    push(index.byId, id, task.taskId)
    if (commit.length >= SHORT_COMMIT) push(index.byCommit, bucket(repo, commit), { commit, taskId: task.taskId })
    if (statement !== null) push(index.byStatement, statement, task.taskId)
  }
  return index
}

function matchesOf({ id, repo, commit, statement }: Keys, index: Index): Map<string, Sameness[]> {
  const found = new Map<string, Sameness[]>()
  for (const taskId of index.byId.get(id) ?? []) push(found, taskId, 'id')
  for (const other of commit.length < SHORT_COMMIT ? [] : (index.byCommit.get(bucket(repo, commit)) ?? [])) {
    if (commit.startsWith(other.commit) || other.commit.startsWith(commit)) push(found, other.taskId, 'commit')
  }
  for (const taskId of statement === null ? [] : (index.byStatement.get(statement) ?? [])) {
    push(found, taskId, 'statement')
  }
  return found
}

function keysOf({ taskId, repo, baseCommit, statement }: ComparedTask, hash: HashText): Keys {
  const words = statement.normalize('NFKC').replace(/\s+/g, ' ').trim().toLowerCase()
  return {
    id: taskId.trim().toLowerCase(),
    repo: repositoryName(repo),
    commit: baseCommit.trim().toLowerCase(),
    // Many rows have no statement at all: nothing is the same as nothing.
    statement: words === '' ? null : hash(words),
  }
}

/** `owner/name` of `https://github.com/Owner/Name.git`, `git@github.com:owner/name` and `owner__name`. */
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
