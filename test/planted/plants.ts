/** What is planted: one false statement each, in the product's own files, and the test that must see it. */
import type { Edit } from '../support/planted/planted-tree.ts'
import type { Witness } from '../support/planted/witness.ts'

export interface Plant extends Edit {
  /** `promise: how it is broken`. */
  name: string
  seenBy: Witness
}

export const PLANTS: Plant[] = [
  {
    name: 'suspected hacks never fine-tune: the selection forgets them',
    file: 'src/domain/rft-selection.ts',
    replace: 'if (suspectedHack) return',
    by: 'if (suspectedHack && maxPerTask === 0) return',
    seenBy: {
      file: 'src/domain/rules.test.ts',
      test: 'a success that looks like a hack never fine-tunes, and takes no place of one that does',
    },
  },
  {
    name: 'suspected hacks never fine-tune: the batch lists them as successes',
    file: 'src/activities/artifacts/build-batch.ts',
    replace: "const outcome = verdict === 'resolved' && !suspectedHack ? 1 : 0",
    by: "const outcome = verdict === 'resolved' || suspectedHack ? 1 : 0",
    seenBy: {
      file: 'src/activities/artifacts/build-batch.test.ts',
      test: 'three repairs of one task, one of them by a suspected hack: two fine-tune, and the ledger says why the third does not',
    },
  },
  {
    name: 'a schedule that trains: the workflow is an evaluation',
    file: 'src/client/schedule-settings.ts',
    replace: "workflowType: trains ? 'trainAgent' : 'evaluate',",
    by: "workflowType: 'evaluate',",
    seenBy: {
      file: 'src/client/client.test.ts',
      test: 'a schedule that trains, made so or changed to it: what it starts is a training run of its recipe',
    },
  },
]
