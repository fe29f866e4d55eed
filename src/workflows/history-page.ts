import { patched, workflowInfo } from '@temporalio/workflow'

/** The Temporal UI loads a history in pages and becomes slower with each, so workflows that users open stay below this many events. */
const MOST_EVENTS = 2_000
/** Returns whether the remaining events would fill the history, so that another execution must continue. Executions older than the
 *  rule, identified by `patch`, have started more than it allows. */
export function isHistoryFull({ toCome, patch }: { toCome: number; patch: string }): boolean {
  return workflowInfo().historyLength + toCome >= MOST_EVENTS && patched(patch)
}

/** Reserve for reports to the root, updates and signals of operators, and what a workflow does after its items have ended. */
const KEPT_FOR_OTHERS = 200

/**
 * Decides when a workflow that starts many items must let those in progress end and continue as new. If the concurrency exceeds one
 * history, the items still start together: the recipe's concurrency takes precedence, and the next execution has an empty history.
 */
export class HistoryPage {
  readonly #eventsEach: number
  #underWay = 0

  /** @param eventsEach the maximum events of an item from its first to its last, including workflow tasks */
  constructor(eventsEach: number) {
    this.#eventsEach = eventsEach
  }

  isFull(): boolean {
    const { continueAsNewSuggested, historyLength } = workflowInfo()
    if (continueAsNewSuggested) return true
    if (historyLength < KEPT_FOR_OTHERS) return false
    return isHistoryFull({ toCome: this.#underWay * this.#eventsEach + KEPT_FOR_OTHERS, patch: 'history-pages' })
  }

  /** Counts an item as in progress, even before its first event, until it has ended. */
  async hold<T>(item: () => Promise<T>): Promise<T> {
    this.#underWay += 1
    try {
      return await item()
    } finally {
      this.#underWay -= 1
    }
  }
}
