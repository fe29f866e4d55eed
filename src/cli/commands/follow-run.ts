import { showMean } from '../../domain/statistics/statistics.ts'
import {
  cancelRun,
  findBlockers,
  type RunAddress,
  type RunHandle,
  type RunEvent,
  type RunOutcome,
  type StageScore,
} from '../../client/index.ts'
import { type Clock, systemClock } from '../../platform/clock.ts'
import { onInterrupts } from '../../platform/interrupts.ts'
import { noteDisplay } from '../output/at-work.ts'
import { announceBlockers } from '../output/describe-blockers.ts'
import { type Console, isCi } from '../output/console.ts'
import { EXIT, type ExitCode } from '../output/exit-codes.ts'
import { createLiveLines, elapsed, type LiveLines } from '../output/live-lines.ts'
import {
  countOf,
  createRate,
  describeProgress,
  type ProgressEvent,
  type ProgressFacts,
} from '../output/live-progress.ts'
import { uiLink } from '../local-stack.ts'

/** A second Ctrl-C within this time cancels the run. */
const SECOND_CHANCE_MS = 2_000
/** How long the command waits for a cancelled run to close its sandboxes. */
const CANCEL_GRACE_MS = 60_000

export type OnInterrupt = 'detach' | 'cancel'

interface FollowInput<T> {
  handle: RunHandle<T>
  console: Console
  json: boolean
  /** @default cancel in CI, where no user would come back to the run; detach elsewhere */
  onInterrupt?: OnInterrupt | undefined
  /** Stored with the run if an interrupt cancels it. */
  cancelReason?: string
}

export type Followed<T> = { kind: 'ended'; outcome: RunOutcome<T>; interrupted: boolean } | { kind: 'detached' }

/** Shows a run until it ends or the user detaches, which does not affect the run. */
export async function followRun<T>(input: FollowInput<T>): Promise<Followed<T>> {
  const { handle, console, json } = input
  const onInterrupt = input.onInterrupt ?? (isCi() ? 'cancel' : 'detach')
  const printer = createProgressPrinter({ console, workflowId: handle.workflowId, json })
  const leave = new AbortController()
  let interrupts = 0
  const cancelling: Promise<unknown>[] = []
  const reason = input.cancelReason === undefined ? {} : { reason: input.cancelReason }
  const cancel = (): void => {
    // CI systems kill a job seconds after the second signal: the command ends now with what it knows.
    if (cancelling.length > 0) {
      leave.abort()
      return
    }
    console.err('cancelling the run; it closes its sandboxes first')
    cancelling.push(
      cancelRun({ ...addressOf(handle), ...reason }).catch((error: unknown) => console.err(String(error))),
    )
    setTimeout(() => leave.abort(), CANCEL_GRACE_MS).unref()
  }
  const stopListening = onInterrupts((signal, count) => {
    interrupts = count
    printer.finish()
    if (onInterrupt === 'cancel' || (interrupts > 1 && signal === 'SIGINT')) {
      cancel()
      return
    }
    if (signal === 'SIGTERM') {
      // SIGTERM comes from a program; only a user at a terminal can confirm a cancellation with a second Ctrl-C.
      if (interrupts === 1) console.err(howToReturn(handle.workflowId, { isAsked: false }))
      leave.abort()
      return
    }
    console.err(howToReturn(handle.workflowId, { isAsked: true }))
    setTimeout(() => {
      if (interrupts === 1) leave.abort()
    }, SECOND_CHANCE_MS)
  })
  // Announced after the handlers are set: a user who reads the announcement may press Ctrl-C at once.
  announce(handle, { console, json })
  void announceSteering(handle, (line) => printer.note(line))
  const over = new AbortController()
  // Not awaited at the end: a pending query may take as long as the server's silence.
  void announceBlockers({
    look: () => findBlockers(handle),
    say: (line) => printer.note(line),
    now: (blockers) => printer.blocked(blockers),
    signal: AbortSignal.any([leave.signal, over.signal]),
  })
  try {
    for await (const event of handle.watch({ signal: leave.signal })) {
      printer.show(event)
      if (event.kind === 'closed') {
        return { kind: 'ended', outcome: event.outcome, interrupted: interrupts > 0 }
      }
    }
    await Promise.all(cancelling)
    return { kind: 'detached' }
  } finally {
    over.abort()
    printer.finish()
    stopListening()
  }
}

/** Of a command that detached from its run: a program that reads records waits for the last one, `done`. */
export function concludeDetached(console: Console, json: boolean): ExitCode {
  if (json) console.record({ event: 'done', exitCode: EXIT.interrupted, outcome: { status: 'detached' } })
  return EXIT.interrupted
}

function announce(handle: RunHandle<unknown>, { console, json }: { console: Console; json: boolean }): void {
  const { workflowId, attached } = handle
  const ui = uiLink(workflowId)
  if (json) console.record({ event: 'launch', workflowId, attached, ui })
  console.err(`${attached ? 'joined' : 'started'} ${workflowId}${ui === null ? '' : `\n        ${ui}`}`)
}

/** For a command that does not follow the run. Its only result is the run's id. */
export async function announceDetached(
  handle: RunHandle<unknown>,
  { console, json }: { console: Console; json: boolean },
): Promise<void> {
  announce(handle, { console, json })
  await announceSteering(handle, (line) => console.err(line))
  if (!json) console.out(handle.workflowId)
}

/** For a start that finds its run cancelled and not yet closed. */
export function announceClosing(console: Console): (workflowId: string) => void {
  return (workflowId) =>
    console.err(`${workflowId} was cancelled and is closing; it is started again when it has ended`)
}

/** Names what an operator asked of a run that this command joined, since a user expects one that plays to its end. */
async function announceSteering(handle: RunHandle<unknown>, say: (line: string) => void): Promise<void> {
  const progress = handle.attached ? await handle.progress().catch(() => null) : null
  if (progress === null || progress.phase === 'done') return
  const { paused, stopAfterIteration } = progress
  const run = wayTo(handle.workflowId)
  if (paused) say(`it is paused; continue it with longhaul run resume ${run}`)
  if (stopAfterIteration !== null) {
    const change = `longhaul run stop ${run} --after-iteration <n> changes that`
    say(`it stops after iteration ${stopAfterIteration}, as an operator asked; ${change}`)
  }
}

function addressOf({ connection, workflowId }: RunHandle<unknown>): RunAddress {
  return { connection, workflowId }
}

/** The `train/` prefix is dropped, since a bare name is first looked up among training runs; other runs need their full id. */
function wayTo(workflowId: string): string {
  return workflowId.replace(/^train\//, '')
}

function howToReturn(workflowId: string, { isAsked }: { isAsked: boolean }): string {
  const run = wayTo(workflowId)
  return [
    `detached; ${workflowId} goes on`,
    `  watch it again   longhaul run status ${run} --follow`,
    `  end it           longhaul run stop ${run} --now${isAsked ? `   (or Ctrl-C again within ${SECOND_CHANCE_MS / 1000} s)` : ''}`,
  ].join('\n')
}

interface ProgressPrinter {
  show(event: RunEvent<unknown>): void
  /** Sets what blocks the run now. */
  blocked(blockers: readonly string[]): void
  /** Prints a permanent line with the elapsed time. */
  note(text: string): void
  finish(): void
}

/** Longest time without a record. */
const RECORD_MS = 30_000

interface PrinterInput {
  console: Console
  workflowId: string
  json: boolean
  clock?: Clock
}

/** The live display of a run; with `json` a record for each change and at least every 30 seconds. */
export function createProgressPrinter({
  console,
  workflowId,
  json,
  clock = systemClock,
}: PrinterInput): ProgressPrinter {
  const startedMs = clock.now()
  const facts: ProgressFacts = {
    startedMs,
    workflowId,
    last: null,
    changedMs: startedMs,
    unreachable: null,
    blockers: [],
    rate: createRate(),
  }
  let scores = 0
  const display = json
    ? createRecords({ console, clock, last: () => facts.last })
    : createLiveLines({ console, clock, describe: (nowMs) => describeProgress(facts, nowMs) })
  const note = (text: string): void => display.note(`${elapsed(clock.now() - startedMs)}  ${text}`)

  return {
    show(event) {
      if (event.kind === 'closed') return
      facts.unreachable = event.kind === 'unreachable' ? event.message : null
      if (json && facts.unreachable !== null)
        note(`the Temporal server does not answer; the run goes on (${facts.unreachable})`)
      if (event.kind === 'progress') {
        const { progress } = event
        facts.last = event
        facts.changedMs = clock.now()
        facts.rate.saw(clock.now(), progress?.phase ?? '', countOf(event))
        const found = progress?.scores ?? []
        if (!json) for (const score of found.slice(scores)) note(describeStageScore(score))
        scores = Math.max(scores, found.length)
      }
      display.changed()
    },
    blocked(blockers) {
      facts.blockers = blockers
      display.changed()
    },
    note,
    finish: () => display.finish(),
  }
}

function describeStageScore({ name, passAt1, sem, tasks, attempts }: StageScore): string {
  return `${name}: pass@1 ${showMean({ mean: passAt1, sem, tasks })} (n = ${tasks}, k = ${attempts})`
}

function createRecords({
  console,
  clock,
  last,
}: {
  console: Console
  clock: Clock
  last: () => ProgressEvent | null
}): Pick<LiveLines, 'note' | 'changed' | 'finish'> {
  let written: ProgressEvent | null = null
  let writtenMs = clock.now()
  const write = (): void => {
    const event = last()
    const isDue = clock.now() - writtenMs >= RECORD_MS
    if (event === null ? !isDue : event === written && !isDue) return
    written = event
    writtenMs = clock.now()
    console.record({
      event: 'progress',
      ...(event ?? { kind: 'progress', progress: null, episodes: null, work: null }),
      at: new Date(clock.now()),
    })
  }
  const stop = clock.repeat(1_000, write)
  const endDisplay = noteDisplay()
  return {
    note: (text) => console.err(text),
    changed: write,
    finish() {
      stop()
      endDisplay()
    },
  }
}
