import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { type ComparedTask, findOverlap } from './suite-overlap.ts'

const COMMIT = '1234567890abcdef1234567890abcdef12345678'
const hash = (text: string): string => createHash('sha256').update(text).digest('hex')

function task(fields: Partial<ComparedTask> = {}): ComparedTask {
  return { taskId: 'a__b-1', repo: 'a/b', baseCommit: COMMIT, statement: 'It is wrong.', ...fields }
}

/** Shares nothing with `task()`. */
function other(fields: Partial<ComparedTask> = {}): ComparedTask {
  return task({ taskId: 'c__d-2', repo: 'c/d', baseCommit: 'f'.repeat(40), statement: 'Another fault.', ...fields })
}

function same(train: ComparedTask, evaluated: ComparedTask): string[] {
  const found = findOverlap({ train: [train], evaluated: [{ suite: 'held-out', tasks: [evaluated] }], hash })
  return found.flatMap((overlap) => overlap.same)
}

test('tasks without anything in common are disjoint, and each kind of equality is found and named', () => {
  assert.deepEqual(same(task(), other()), [])
  assert.deepEqual(same(task(), other({ taskId: 'a__b-1' })), ['id'])
  assert.deepEqual(same(task(), other({ repo: 'a/b', baseCommit: COMMIT })), ['commit'])
  assert.deepEqual(same(task(), other({ statement: 'It is wrong.' })), ['statement'])
  assert.deepEqual(same(task(), task()), ['id', 'commit', 'statement'])
})

const SPELLINGS: [name: string, fields: Partial<ComparedTask>, found: string][] = [
  ['an id in other case', { taskId: 'A__B-1' }, 'id'],
  ['a repository in other case', { repo: 'A/B', baseCommit: COMMIT }, 'commit'],
  ['a repository by its address', { repo: 'https://github.com/a/b.git', baseCommit: COMMIT }, 'commit'],
  ['a repository by its address for ssh', { repo: 'git@github.com:a/b.git', baseCommit: COMMIT }, 'commit'],
  ['a repository as in ids', { repo: 'a__b', baseCommit: COMMIT }, 'commit'],
  ['a shortened commit', { repo: 'a/b', baseCommit: COMMIT.slice(0, 10) }, 'commit'],
  ['a commit in Git’s short form', { repo: 'a/b', baseCommit: COMMIT.slice(0, 7) }, 'commit'],
  ['a commit in capitals', { repo: 'a/b', baseCommit: COMMIT.toUpperCase() }, 'commit'],
  ['a statement with other line ends', { statement: '  It\r\n is\twrong.\r\n' }, 'statement'],
  ['a statement in other case', { statement: 'IT IS WRONG.' }, 'statement'],
]
for (const [name, fields, found] of SPELLINGS) {
  test(`finds equal tasks in another spelling: ${name}`, () => {
    assert.deepEqual(same(task(), other(fields)), [found])
    assert.deepEqual(same(other(fields), task()), [found])
  })
}

test('an empty statement, a commit of another repository and a missing commit match nothing', () => {
  assert.deepEqual(same(task({ statement: '' }), other({ statement: ' \n' })), [])
  assert.deepEqual(same(task(), other({ baseCommit: COMMIT })), [])
  assert.deepEqual(same(task({ baseCommit: '' }), other({ repo: 'a/b', baseCommit: '' })), [])
  assert.deepEqual(same(task({ baseCommit: '123' }), other({ repo: 'a/b', baseCommit: COMMIT })), [])
})

test('names every shared pair once, in the order of training tasks, suites and ids', () => {
  const found = findOverlap({
    train: [task({ taskId: 't-2' }), other({ taskId: 't-1' })],
    evaluated: [
      { suite: 'verified', tasks: [task({ taskId: 'v-2' }), task({ taskId: 'v-1' })] },
      { suite: 'may', tasks: [other({ taskId: 'm-1', statement: 'Unlike.' })] },
    ],
    hash,
  })
  assert.deepEqual(
    found.map(({ taskId, suite, as, same }) => [taskId, suite, as, same.join()]),
    [
      ['t-2', 'verified', 'v-1', 'commit,statement'],
      ['t-2', 'verified', 'v-2', 'commit,statement'],
      ['t-1', 'may', 'm-1', 'commit'],
    ],
  )
})

test('ignores blanks around ids and commits, and slashes or host names in addresses', () => {
  assert.deepEqual(same(task(), other({ taskId: ' a__b-1 ' })), ['id'])
  assert.deepEqual(same(task(), other({ repo: 'a/b', baseCommit: ` ${COMMIT}\n` })), ['commit'])
  for (const repo of [' a/b ', 'https://www.github.com/a/b//', 'git+ssh://me@host.example.org/a/b.git/']) {
    assert.deepEqual(same(task(), other({ repo, baseCommit: COMMIT })), ['commit'], repo)
  }
})

test('a name with a dot before a slash is no host', () => {
  assert.deepEqual(same(task({ repo: 'a/b.c' }), other({ repo: 'a/b.c/', baseCommit: COMMIT })), ['commit'])
})

test('a repository whose name contains a host name or a Git suffix is another one', () => {
  assert.deepEqual(same(task({ repo: 'x.gitx/b' }), other({ repo: 'xx/b', baseCommit: COMMIT })), [])
  assert.deepEqual(same(task({ repo: 'a/b.github.io' }), other({ repo: 'a/bhub.io', baseCommit: COMMIT })), [])
})

test('a statement whose words are joined is another one', () => {
  assert.deepEqual(same(task(), other({ statement: 'Itiswrong.' })), [])
})

test('two commits of one repository with a common prefix are different', () => {
  const near = `${COMMIT.slice(0, 20)}${'0'.repeat(20)}`
  assert.deepEqual(same(task(), other({ repo: 'a/b', baseCommit: near })), [])
})
