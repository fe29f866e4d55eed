import { cancelRun, findBlockers, type RunHandle, type RunOutcome } from '../../client/index.ts'
import { announceBlockers } from '../output/announce-blockers.ts'
import { type Console, isCi } from '../output/console.ts'
import { uiLink } from '../local-stack.ts'
import { createProgressPrinter } from '../output/progress-lines.ts'

/** A second Ctrl-C within this time asks the run itself to end. */
const SECOND_CHANCE_MS = 2_000
/** How long a cancelled run may take to close its sandboxes before we stop looking. */
const CANCEL_GRACE_MS = 60_000

export type OnInterrupt = 'detach' | 'cancel'

export interface FollowInput<T> {
  handle: RunHandle<T>
  console: Console
  json: boolean
  /** @default cancel in CI, where no user would come back to the run; detach elsewhere */
  onInterrupt?: OnInterrupt | undefined
}

export type Followed<T> = { kind: 'ended'; outcome: RunOutcome<T>; interrupted: boolean } | { kind: 'detached' }

/** Shows a run until it ends or the user leaves. Leaving never harms it: the run is durable. */
export async function followRun<T>(input: FollowInput<T>): Promise<Followed<T>> {
  const { handle, console, json } = input
  const onInterrupt = input.onInterrupt ?? (isCi() ? 'cancel' : 'detach')
  const printer = createProgressPrinter({ console })
  const leave = new AbortController()
  let interrupts = 0
  const cancelling: Promise<void>[] = []
  const cancel = (): void => {
    if (cancelling.length > 0) return
    console.err('cancelling the run; it closes its sandboxes first')
    cancelling.push(cancelRun(handle).catch((error: unknown) => console.err(String(error))))
    setTimeout(() => leave.abort(), CANCEL_GRACE_MS).unref()
  }
  const interrupted = (): void => {
    interrupts += 1
    printer.finish()
    if (onInterrupt === 'cancel' || interrupts > 1) {
      cancel()
      return
    }
    console.err(howToReturn(handle.workflowId))
    setTimeout(() => {
      if (interrupts === 1) leave.abort()
    }, SECOND_CHANCE_MS)
  }
  const signals = ['SIGINT', 'SIGTERM'] as const
  for (const signal of signals) process.on(signal, interrupted)
  // Announced after the handlers are set: a user who reads the announcement may press Ctrl-C at once.
  announce(handle, { console, json })
  const over = new AbortController()
  // Not waited for at the end: a look that is under way may take as long as the server's silence.
  void announceBlockers({
    look: () => findBlockers(handle),
    say: (line) => printer.note(line),
    signal: AbortSignal.any([leave.signal, over.signal]),
  })
  try {
    for await (const event of handle.watch({ signal: leave.signal })) {
      if (json && event.kind === 'progress') console.record({ event: 'progress', ...event })
      else printer.show(event)
      if (event.kind === 'closed') {
        return { kind: 'ended', outcome: event.outcome, interrupted: interrupts > 0 }
      }
    }
    await Promise.all(cancelling)
    return { kind: 'detached' }
  } finally {
    over.abort()
    printer.finish()
    for (const signal of signals) process.off(signal, interrupted)
  }
}

export function announce(handle: RunHandle<unknown>, { console, json }: { console: Console; json: boolean }): void {
  const { workflowId, attached } = handle
  const ui = uiLink(workflowId)
  if (json) console.record({ event: 'launch', workflowId, attached, ui })
  console.err(`${attached ? 'joined' : 'started'} ${workflowId}${ui === null ? '' : `\n        ${ui}`}`)
}

/** A name alone is first looked for among training runs: of any other root only the whole id is sure to lead back to it. */
function howToReturn(workflowId: string): string {
  const run = workflowId.replace(/^train\//, '')
  return [
    `detached; ${workflowId} goes on`,
    `  watch it again   longhaul run status ${run} --follow`,
    `  end it           longhaul run stop ${run} --now   (or Ctrl-C again within ${SECOND_CHANCE_MS / 1000} s)`,
  ].join('\n')
}
