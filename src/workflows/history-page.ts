import { patched, workflowInfo } from '@temporalio/workflow'

/** The Temporal UI loads a history in pages and slows down with each: what people open stays below this many events. */
const MOST_EVENTS = 2_000
/** What is still to come would fill the history: another execution has to go on. Executions of before the rule, which `patch` tells, have begun more than it allows. */
export function isHistoryFull({ toCome, patch }: { toCome: number; patch: string }): boolean {
  return workflowInfo().historyLength + toCome >= MOST_EVENTS && patched(patch)
}

/** Reports to the root, updates and signals of operators, and what a workflow does when its items have ended. */
const KEPT_FOR_OTHERS = 200

/**
 * Says when a workflow that starts many items has to let those under way end and continue as new. Items that are wider than one history
 * begin together all the same: a recipe's concurrency comes first, and the execution that follows is new.
 */
export class HistoryPage {
  readonly #eventsEach: number
  #underWay = 0

  /** @param eventsEach what an item costs at the most, from its first event to its last, workflow tasks included */
  constructor(eventsEach: number) {
    this.#eventsEach = eventsEach
  }

  isFull(): boolean {
    const { continueAsNewSuggested, historyLength } = workflowInfo()
    if (continueAsNewSuggested) return true
    if (historyLength < KEPT_FOR_OTHERS) return false
    return isHistoryFull({ toCome: this.#underWay * this.#eventsEach + KEPT_FOR_OTHERS, patch: 'history-pages' })
  }

  /** An item counts as under way from now on, also before its first event, until it has ended. */
  async hold<T>(item: () => Promise<T>): Promise<T> {
    this.#underWay += 1
    try {
      return await item()
    } finally {
      this.#underWay -= 1
    }
  }
}
