import type { ComposedTask } from '../../src/adapters/datasets/synthetic/compose.ts'
import { functionText } from '../../src/adapters/datasets/synthetic/functions.ts'
import { OPERATORS } from '../../src/adapters/datasets/synthetic/operators.ts'

/**
 * How an episode ended. `wrong-operator`, `wrong-place`, `no-edit` and `not-submitted` are wrong branches, which RL can
 * correct; `garbled` is missing skill, which it hardly can.
 */
export type Ending = 'resolved' | 'not-submitted' | 'no-edit' | 'wrong-place' | 'wrong-operator' | 'garbled'

export interface ClassifyInput {
  task: ComposedTask
  patch: string
  submitted: boolean
  resolved: boolean
}

export function classify({ task, patch, submitted, resolved }: ClassifyInput): Ending {
  if (resolved) return 'resolved'
  if (!submitted) return 'not-submitted'
  if (patch === '') return 'no-edit'
  const removed = patch.split('\n').filter((line) => /^-(?!--)/.test(line))
  const added = patch.split('\n').filter((line) => /^\+(?!\+\+)/.test(line))
  const { path, wrongText } = task.targetLine
  const isInPlace = patch.includes(`+++ b/${path}\n`) && removed.length === 1 && removed[0] === `-${wrongText}`
  if (!isInPlace) return 'wrong-place'
  return added.length === 1 && isFamilyMember(task, (added[0] ?? '').slice(1)) ? 'wrong-operator' : 'garbled'
}

function isFamilyMember({ target }: ComposedTask, line: string): boolean {
  const anyConstant = line.replace(/\d+$/, String(target.constant))
  return OPERATORS[target.kind].some(({ symbol }) => {
    const { lines, decisiveLine } = functionText({ ...target, operator: symbol })
    return lines[decisiveLine] === (target.kind === 'constant' ? anyConstant : line)
  })
}
