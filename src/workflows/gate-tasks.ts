import {
  continueAsNew,
  isCancellation,
  log,
  ParentClosePolicy,
  patched,
  setCurrentDetails,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow'
import { workflowIds } from '../contracts/workflow-ids.ts'
import type {
  GatePartResult,
  GateTasksInput,
  GateTasksResult,
  PreparedSuite,
  ResolvedRun,
  WorkCount,
} from '../contracts/workflows.types.ts'
import { control, gating, images, slowControl } from './activity-proxies.ts'
import { failRun, failureCode, innermostMessage, withCode } from './failures.ts'
import { HistoryPage } from './history-page.ts'
import { requireResult } from './require-result.ts'
import { CLOSING_WAIT_MS, PLAYING_WAIT_MS, runChild } from './run-child.ts'
import { blockersQuery, gateQuery } from './run-control.ts'
import { runConcurrently } from './run-concurrently.ts'

/** Concurrent tasks of a gate whose input is older than the width. */
const OPEN_TASKS = 16

/** Tasks per part. With ten minutes per step and fifty repeats, a part stays below two executions. */
const PART = 250

/** Per task: two steps of ten minutes, each with three events and a workflow task. */
const EVENTS_A_TASK = 12

/** Per part, as for any child. */
const EVENTS_A_PART = 9

/** Concurrent parts. Each has its share of the width, so that no workflow holds thousands of pending activities. */
const OPEN_PARTS = 20

/**
 * Admits a task if its gold patch resolves and the empty patch does not, every time. Activities: one for each ten minutes of a task.
 * Gradings are records, so gating the same tasks again starts no container. Suites over 250 tasks are gated in parts, children of this
 * same type, which determine their width when they begin. Continues as new before its history has 2,000 events. Queries `progress` (a
 * part counts its own tasks; a suite in parts counts those of ended parts) and `blockers`. On cancel the open gradings end together
 * with their containers.
 */
export async function gateTasks(input: GateTasksInput): Promise<GateTasksResult | GatePartResult> {
  const { plan: run, suite, part } = input
  setHandler(blockersQuery, () => ({
    run: run.run,
    waits: [
      {
        on: { kind: 'workflow', name: workflowInfo().workflowId },
        doing: `gating ${suite.tasks} tasks of ${suite.name}, begun with ${input.from ?? 0}`,
        since: workflowInfo().runStartTime.toISOString(),
        toDo: null,
      },
    ],
  }))
  const end = part?.to ?? suite.tasks
  const { from = 0, failed: refused = 0 } = input
  const first = part === undefined ? 0 : startOfPart(part.to)
  const count: WorkCount = { unit: 'tasks', done: from - first, total: end - first, failed: refused }
  setHandler(gateQuery, () => count)
  const onTask: GatePageInput['onTask'] = (ended) =>
    Object.assign(count, { done: ended.tasks - first, failed: ended.refused })
  const page = await gatePage({ run, suite, from, refused, onTask, ...(part && { part }) })
  if (page.next < end) {
    return continueAsNew<typeof gateTasks>({ ...input, from: page.next, failed: page.refused })
  }
  if (part !== undefined) return { tasks: end, refused: page.refused }
  const gate = requireResult('closeGate', await slowControl.closeGate({ run: run.run, suite: suite.suite }))
  return { suite: suite.suite, ...gate }
}

/** Parts begin at multiples of their size. Only the last one is shorter. */
function startOfPart(to: number): number {
  return Math.floor((to - 1) / PART) * PART
}

export interface GatePageInput {
  run: ResolvedRun
  suite: PreparedSuite
  from: number
  refused: number
  /** @default the whole suite */
  part?: NonNullable<GateTasksInput['part']>
  /** Called after each task, or after each part of a large suite. */
  onTask?: (done: { tasks: number; refused: number }) => void
}

export interface GatePageResult {
  /** The first task that was not started. */
  next: number
  refused: number
}

/** Gates tasks concurrently until all are done or the history is full. */
export async function gatePage(input: GatePageInput): Promise<GatePageResult> {
  const { run, suite, part, from } = input
  const isLarge = part === undefined && run.gateWidth !== undefined && suite.tasks - from > PART
  return isLarge ? gateParts(input) : gateOneByOne(input)
}

async function gateOneByOne({ run, suite, part, onTask, ...begun }: GatePageInput): Promise<GatePageResult> {
  const end = part?.to ?? suite.tasks
  let { from: next, refused } = begun
  let ended = next
  const page = new HistoryPage(EVENTS_A_TASK)
  const gateNext = async (): Promise<boolean> => {
    try {
      if (!(await gateTask(run, suite, next++))) refused += 1
    } finally {
      ended += 1
      setCurrentDetails(`gated ${ended} of ${end} tasks of ${suite.name}, ${refused} refused so far`)
      onTask?.({ tasks: ended, refused })
    }
    return true
  }
  const runNext = async (): Promise<boolean> => next < end && !page.isFull() && page.hold(gateNext)
  const width = await widthOf(run)
  try {
    await runConcurrently({ concurrency: () => Math.ceil(width / (part?.share ?? 1)), onFailure: 'finish', runNext })
  } catch (error) {
    throw withCode(error)
  }
  return { next, refused }
}

async function widthOf({ run, gateWidth }: ResolvedRun): Promise<number> {
  if (gateWidth === undefined) return OPEN_TASKS
  return gateWidth ?? requireResult('gateWidth', await control.gateWidth({ run })).width
}

async function gateParts({ run, suite, onTask, ...begun }: GatePageInput): Promise<GatePageResult> {
  let { from: next, refused } = begun
  let ended = next
  const share = Math.min(OPEN_PARTS, Math.ceil((suite.tasks - next) / PART))
  const page = new HistoryPage(EVENTS_A_PART)
  const gateNext = async (): Promise<boolean> => {
    const from = next
    const to = Math.min(from + PART, suite.tasks)
    next = to
    const options = {
      workflowId: workflowIds.gatePart(workflowInfo().workflowId, from / PART),
      args: [{ plan: run, suite, from, part: { to, share } }] as [GateTasksInput],
      parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
      staticSummary: `${suite.name} · tasks ${from} to ${to - 1} of ${suite.tasks}`,
    }
    const counted = await runChild(gateTasks, options, EARLIER_GATE)
    ended += to - from
    refused += counted.refused
    setCurrentDetails(`gated ${ended} of ${suite.tasks} tasks of ${suite.name}, ${refused} refused so far`)
    onTask?.({ tasks: ended, refused })
    return true
  }
  const runNext = async (): Promise<boolean> => next < suite.tasks && !page.isFull() && page.hold(gateNext)
  try {
    await runConcurrently({ concurrency: () => share, onFailure: 'cancel', runNext })
  } catch (error) {
    throw withCode(error)
  }
  return { next, refused }
}

/** Runs every check and repeat of one task. @returns whether it is admitted */
async function gateTask(run: ResolvedRun, suite: PreparedSuite, index: number): Promise<boolean> {
  for (let step = 1; ; step++) {
    const summary = `${suite.name} · task ${index} · × ${run.gateRepeats}${step === 1 ? '' : ` · step ${step}`}`
    const gated = await gating.gateTask.executeWithOptions({ summary }, [
      { run: run.run, suite: suite.suite, index, step },
    ])
    const { done, ok } = requireResult('gateTask', gated)
    if (done) return ok
  }
}

/**
 * Ends a run within seconds, before any gate, if its images exist nowhere. Any other failure of the check proves nothing, and the gates
 * begin.
 */
export async function requireImages(run: ResolvedRun, suites: readonly PreparedSuite[]): Promise<void> {
  const open = [...new Set(suites.flatMap(({ suite, gated }) => (gated === true ? [] : [suite])))]
  if (open.length === 0) return
  try {
    await images.checkImages({ run: run.run, suites: open })
  } catch (error) {
    const code = failureCode(error)
    if (isCancellation(error) || code === 'Sandbox.ImageMissing' || code === 'Worker.Missing') throw withCode(error)
    log.warn('the check for images failed', { code, reason: innermostMessage(error) })
  }
}

/** A reset leaves a gate or a part of one alone. It gates on for hours, and each of its gradings is a record. */
const EARLIER_GATE = {
  patienceMs: () => (patched('earlier-gates') ? PLAYING_WAIT_MS : CLOSING_WAIT_MS),
}

/** Gates one suite as a child of the caller, which continues only if a playable task is left. */
export async function gateAsChild({ run, suite }: { run: ResolvedRun; suite: PreparedSuite }): Promise<void> {
  const options = {
    workflowId: workflowIds.gate(workflowIds.root(run), suite.name),
    args: [{ plan: run, suite }] as [GateTasksInput],
    parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
    staticSummary: `${suite.name} · gold × ${run.gateRepeats}`,
  }
  const closed = await runChild(gateTasks, options, EARLIER_GATE)
  if ('admitted' in closed && closed.admitted > 0) return
  throw failRun(
    'Task.GateFailed',
    `No task of ${suite.name} passed its gate: the gold patch must resolve and the empty patch must not`,
  )
}
