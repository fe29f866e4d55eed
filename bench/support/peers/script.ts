/** The scripted model's commands for each task; their output proves that each ran once and in order. */
import { createHash } from 'node:crypto'
import type { Task } from '../../../src/contracts/tasks.types.ts'

export interface PeerTask {
  /** Columns as published. */
  row: Record<string, unknown>
  task: Task
  /** The patch that the agent applies. */
  patch: string
  /** The verdict that follows from the patch. */
  expected: 'resolved' | 'unresolved'
}

/** Outside of the repository, so that no patch contains it. */
export const NOTES = '/var/tmp/peers-notes'

/** Ordinary commands of an agent; none depends on the repository. */
const WORK = [
  'ls -a',
  'git log --oneline | head -n 3',
  'git status --short | head -n 20',
  "find . -name '*.py' -not -path './.git/*' | sort | head -n 20",
  "grep -rn 'def ' --include='*.py' . | head -n 20",
  'head -n 40 "$(git ls-files | head -n 1)"',
  'git ls-files | wc -l',
  "awk 'END { print NR }' $(git ls-files '*.py' | head -n 5)",
]

/**
 * A command of a task. Its last line notes the turn in a file and prints the container's id and a hash of the file: a command that
 * ran twice, or not at all, changes every later answer.
 */
export function commandOf({ task, patch }: PeerTask, turn: number, turns: number): string {
  const isPatch = turn === Math.floor(turns / 2)
  const work = isPatch ? `git apply -v <<'END_OF_PATCH'\n${patch}\nEND_OF_PATCH` : (WORK[turn % WORK.length] ?? '')
  return [
    work,
    `[ -f ${NOTES} ] || od -An -N6 -tx1 /dev/urandom | tr -d ' ' >${NOTES}`,
    `echo ${task.taskId} ${turn} >>${NOTES}`,
    `echo "noted $(head -n 1 ${NOTES}) $(($(wc -l <${NOTES}) - 1)) $(tail -n +2 ${NOTES} | sha256sum | cut -c1-16)"`,
  ].join('\n')
}

export interface Noted {
  /** The container's id. */
  box: string
  lines: number
  hash: string
}

export function notedIn(observation: string): Noted | null {
  const [, box = '', lines = '', hash = ''] = /noted ([0-9a-f]{12}) (\d{1,6}) ([0-9a-f]{16})/.exec(observation) ?? []
  return box === '' ? null : { box, lines: Number(lines), hash }
}

/** The file's hash after a turn, if each command ran once. */
export function expectedHash({ task }: PeerTask, turn: number): string {
  const lines = Array.from({ length: turn + 1 }, (_, index) => `${task.taskId} ${index}\n`)
  return createHash('sha256').update(lines.join('')).digest('hex').slice(0, 16)
}
