import { setTimeout as sleep } from 'node:timers/promises'

/** What the Temporal server knows about children of a workflow. */
export interface ChildRegistry {
  /** Ids of open children of any execution of the parent that began by that time, in ms since 1970. The server's index lags. */
  listOpen(input: { parent: string; before: number }): Promise<string[]>
  /** Requests the end of a workflow. Does nothing for one that has closed. */
  cancel(workflowId: string): Promise<void>
}

/** A child closes its sandboxes, which takes as long as a command, or until a worker is back. */
const CHILDREN_CLOSE_MS = 60 * 60_000
const LOOK_EVERY_MS = 2_000

/**
 * Cancels the children that earlier executions of a workflow have left, and waits until they have ended, because a run ends after its
 * episodes. If that takes longer than an hour, it returns all the same: a later execution waits for them itself.
 */
export async function cancelLeft(
  children: ChildRegistry,
  { workflowId: parent, before }: { workflowId: string; before: number },
  signal: AbortSignal,
): Promise<void> {
  const asked = new Set<string>()
  for (
    const end = Date.now() + CHILDREN_CLOSE_MS;
    Date.now() < end;
    await sleep(LOOK_EVERY_MS, undefined, { signal })
  ) {
    const open = await children.listOpen({ parent, before })
    if (open.length === 0) return
    for (const child of open) {
      if (!asked.has(child)) await children.cancel(child)
      asked.add(child)
    }
  }
}
