import { CALL_TIMEOUT_MS, IS_OPEN, isOpen, type LonghaulConnection } from './connect.ts'
import { requireSearchAttributes } from '../platform/search-attributes.ts'
import { grpcStatus } from '../platform/temporal-reach.ts'
import { isClosing } from './control-run.ts'
import { decodePayload } from './decode-payload.ts'
import { resolveConnection, makeRunHandle, type RunHandle } from './watch-run.ts'
import type {
  EvaluateInput,
  EvaluateResult,
  GateSuiteInput,
  GateSuiteResult,
  GradePredictionsInput,
  GradePredictionsResult,
  TrainAgentInput,
  TrainAgentResult,
} from '../contracts/workflows.types.ts'
import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type WorkflowExecutionDescription,
  type WorkflowExecutionInfo,
  WorkflowExecutionAlreadyStartedError,
  type WorkflowIdReusePolicy,
} from '@temporalio/client'
import { parse } from 'yaml'
import { LonghaulError } from '../contracts/errors.ts'
import { QUEUES, workflowIds } from '../contracts/workflow-ids.ts'

/** What every start takes beside the request itself. */
interface StartOptions {
  /** @default one from the environment, closed by the handle's `close` */
  connection?: LonghaulConnection
  /** Start a new run even if a run of the same request is open. @default false */
  fresh?: boolean
  /** Kept with a run that this call starts and shown in the Temporal UI, such as the CI job that asked for it. */
  memo?: Record<string, string>
  /** Maximum time to wait for the end of a cancelled run of that name, which is then continued. @default five minutes */
  closingMs?: number
  /** Called once with the id of a cancelled run that this call waits for. */
  onClosing?: (workflowId: string) => void
}

interface StartRunInput {
  type: keyof typeof ROOT_IDS
  /** Begins the run's name where the request gives none. */
  name: string
  request: RootInput & StartOptions
}

/** A run closes in seconds, but first it waits for a step that cannot be interrupted, such as the load of a policy. */
const CLOSING_MS = 300_000
const CLOSING_POLL_MS = 500

/** Starts a root, or joins the same request under way. */
async function startRun<T>({ type, name, request }: StartRunInput): Promise<RunHandle<T>> {
  const { connection: given, fresh = false, memo = {}, closingMs = CLOSING_MS, onClosing, ...input } = request
  requireSize(input)
  const { connection, ownsConnection } = await resolveConnection(given)
  const root = { connection, type, input, recipe: name, fresh, memo }
  const started = await startWhenClosed(root, { closingMs, ...(onClosing === undefined ? {} : { onClosing }) })
  return makeRunHandle<T>({ connection, ownsConnection, ...started })
}

/** The server takes 2 MiB, encoding included. It refuses more without saying what, and twice as much not at all. */
const MOST_BYTES = 2_000_000

function requireSize(input: RootInput): void {
  const bytes = Buffer.byteLength(JSON.stringify(input))
  if (bytes <= MOST_BYTES) return
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected recipe and overrides of a run to have at most ${MOST_BYTES / 1e6} MB, got ${(bytes / 1e6).toFixed(1)} MB: a recipe names its data by path and does not contain it`,
  })
}

export interface StartEvaluationInput extends Omit<EvaluateInput, 'child'>, StartOptions {}

/** Evaluates a policy on the recipe's held-out suite, or joins the same request under way. */
export function startEvaluation(input: StartEvaluationInput = {}): Promise<RunHandle<EvaluateResult>> {
  const recipe = input.recipe ?? DEFAULT_RECIPES.evaluate
  return startRun({ type: 'evaluate', name: recipe, request: { ...input, recipe } })
}

export interface StartGateInput extends Omit<GateSuiteInput, 'page'>, StartOptions {}

/** Gates a recipe's suite, or joins the same request under way. What was graded before, by any run, is not graded again. */
export function startGate(input: StartGateInput = {}): Promise<RunHandle<GateSuiteResult>> {
  const recipe = input.recipe ?? DEFAULT_RECIPES.gateSuite
  return startRun({ type: 'gateSuite', name: recipe, request: { ...input, recipe } })
}

export interface StartGradingInput
  extends Omit<GradePredictionsInput, 'opened' | 'from' | 'counts' | 'paused' | 'concurrency'>,
    StartOptions {}

/** Grades a file of predictions, or the stored patches of a run again; joins an open run of the same request. */
export function startGrading(input: StartGradingInput): Promise<RunHandle<GradePredictionsResult>> {
  const name = input.regrade === undefined ? 'grade' : `regrade-${input.regrade}`.slice(0, 80)
  return startRun({ type: 'gradePredictions', name, request: input })
}

export interface StartTrainingInput extends TrainAgentInput, StartOptions {}

/** Starts the whole job (gate, base, RFT, DAPO, evaluations, promotion, report), or joins the same request under way. */
export function startTraining(input: StartTrainingInput = {}): Promise<RunHandle<TrainAgentResult>> {
  const recipe = input.recipe ?? DEFAULT_RECIPES.trainAgent
  return startRun({ type: 'trainAgent', name: recipe, request: { ...input, recipe } })
}

/** What all roots take. */
interface RootInput {
  recipe?: string
  recipeText?: string
  overrides?: Record<string, unknown>
  run?: string
}

/** Workflow types that have a run of their own, with the id of a run's workflow. */
export const ROOT_IDS = {
  trainAgent: workflowIds.train,
  evaluate: workflowIds.evaluation,
  gradePredictions: workflowIds.grading,
  gateSuite: workflowIds.gating,
} as const

/** What the workflows take where their input names no recipe. */
const DEFAULT_RECIPES = { trainAgent: 'demo', evaluate: 'nightly', gateSuite: 'demo' } as const

interface StartRootInput<T extends RootInput> {
  connection: LonghaulConnection
  type: keyof typeof ROOT_IDS
  input: T
  /** Part of the id where no run is named. */
  recipe: string
  /** Never join a run that is under way. */
  fresh: boolean
  memo: Record<string, string>
  /** @default now; the day in UTC is part of the id */
  now?: Date
}

interface StartedRoot {
  workflowId: string
  attached: boolean
}

interface Closing {
  /** Id of a cancelled root that is still open. */
  closing: string
}

/** As the server's query language writes a list. */
export const ROOT_TYPES = Object.keys(ROOT_IDS)
  .map((type) => `'${type}'`)
  .join(', ')

/** Names after z continue with aa, ab, …: a busy day is no error. */
const MAX_RUNS_A_DAY = 26 * 27

/**
 * A run that was cancelled does not go on: who joined it would believe that it does. So it is waited for and started again, which
 * continues it from its records.
 * @throws LonghaulError `Run.StillClosing` if it is still open when the time is over
 */
async function startWhenClosed<T extends RootInput>(
  root: StartRootInput<T>,
  { closingMs, onClosing }: { closingMs: number; onClosing?: (workflowId: string) => void },
): Promise<StartedRoot> {
  const untilMs = performance.now() + closingMs
  for (let looks = 0; ; looks++) {
    const found = await startRoot(root)
    if (!('closing' in found)) return found
    if (performance.now() >= untilMs) throw stillClosing(found.closing)
    if (looks === 0) onClosing?.(found.closing)
    await sleep(Math.min(CLOSING_POLL_MS, closingMs))
  }
}

function stillClosing(workflowId: string): LonghaulError {
  return new LonghaulError({
    code: 'Run.StillClosing',
    message: `${workflowId} was cancelled and is still closing, so it cannot be joined. longhaul run blockers ${workflowId} shows what it waits for; once it has ended, the same request continues it`,
    details: { workflowId },
  })
}

/**
 * Starts a root workflow under a readable id. The same request made twice joins the run that is under way, so that a repeated
 * CI job or a second terminal does no work twice.
 * @throws LonghaulError `Run.RecipeConflict` where a named run is under way with another request
 */
async function startRoot<T extends RootInput>(root: StartRootInput<T>): Promise<StartedRoot | Closing> {
  const { connection } = root
  await requireSearchAttributes({ ...connection, connection: connection.client.connection })
  return bounded(connection, () =>
    root.input.run === undefined ? startUnnamed(root) : startNamed(root, root.input.run),
  )
}

async function startUnnamed<T extends RootInput>(root: StartRootInput<T>): Promise<StartedRoot> {
  const running = root.fresh ? null : await findRunning(root)
  if (running !== null) return { workflowId: running, attached: true }
  const day = (root.now ?? new Date()).toISOString().slice(0, 10)
  for (let number = 0; number < MAX_RUNS_A_DAY; number++) {
    const name = `${root.recipe}-${day}-${letters(number)}`
    if (await isNameTaken(root, name)) continue
    const workflowId = idOf(root, name)
    const existing = await startOrDescribe(root, workflowId, 'REJECT_DUPLICATE')
    if (existing === null) return { workflowId, attached: false }
    // Another client has just started the same run: the list above may lag behind.
    if (!root.fresh && isJoinable(existing) && (await isSameRequest(existing, root)))
      return { workflowId, attached: true }
  }
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `No free run name is left today for recipe ${root.recipe}; choose one with run`,
  })
}

async function startNamed<T extends RootInput>(root: StartRootInput<T>, run: string): Promise<StartedRoot | Closing> {
  if (root.fresh) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected either fresh or a named run, got both: a named run is continued`,
    })
  }
  const workflowId = idOf(root, run)
  // A run that failed may be tried again under its name: its records make it go on where it stopped.
  const existing =
    (await findUnderOtherId(root, run)) ?? (await startOrDescribe(root, workflowId, 'ALLOW_DUPLICATE_FAILED_ONLY'))
  if (existing === null) return { workflowId, attached: false }
  if (await isSameRequest(existing, root)) {
    const { workflowId } = existing
    return isClosing(existing) ? { closing: workflowId } : { workflowId, attached: true }
  }
  throw new LonghaulError({
    code: 'Run.RecipeConflict',
    message: `Run ${run} exists and was started with another recipe or other overrides. Choose another name, or repeat the request that it was started with`,
    details: { workflowId: existing.workflowId },
  })
}

async function startOrDescribe<T extends RootInput>(
  root: StartRootInput<T>,
  workflowId: string,
  workflowIdReusePolicy: WorkflowIdReusePolicy,
): Promise<WorkflowExecutionDescription | null> {
  const { client } = root.connection
  try {
    await client.workflow.start(root.type, {
      workflowId,
      taskQueue: QUEUES.control,
      args: [root.input],
      workflowIdReusePolicy,
      memo: { ...root.memo, recipe: root.recipe, request: requestHash(root) },
      staticSummary: root.recipe,
    })
    return null
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error
    return client.workflow.getHandle(workflowId).describe()
  }
}

async function findRunning<T extends RootInput>(root: StartRootInput<T>): Promise<string | null> {
  const prefix = idOf(root, `${root.recipe}-`)
  const query = `WorkflowType = '${root.type}' AND ${IS_OPEN} AND WorkflowId STARTS_WITH '${prefix}'`
  for await (const execution of root.connection.client.workflow.list({ query, pageSize: 50 })) {
    if (!isRequest(execution.memo?.['request'], root)) continue
    // The index does not know of a cancel. An unnamed request does not wait for a cancelled run: it begins another, as after its end.
    const found = await root.connection.client.workflow.getHandle(execution.workflowId).describe()
    if (isJoinable(found)) return execution.workflowId
  }
  return null
}

/** An open root of this name that was started under an id of its own: two roots would play one run. */
async function findUnderOtherId<T extends RootInput>(
  root: StartRootInput<T>,
  run: string,
): Promise<WorkflowExecutionDescription | null> {
  const own = idOf(root, run)
  const { client } = root.connection
  for (const { workflowId, type, parentExecution, status } of await listByName(root.connection, run)) {
    const isOther = workflowId !== own && type === root.type && parentExecution === undefined
    if (!isOther || !isOpen(status.name)) continue
    const found = await client.workflow.getHandle(workflowId).describe()
    // The index lags by a moment: a root that has just ended is continued, not joined.
    if (isRunning(found)) return found
  }
  return null
}

/**
 * A root that was started elsewhere (the Temporal UI) has an id of its own and only carries the name: taking the name's id would
 * give this run another name than its id says. The index lags by a moment; the run's name is allocated for good by its first
 * activity, so a clash then costs the likeness of the two and nothing else.
 */
async function isNameTaken<T extends RootInput>({ connection }: StartRootInput<T>, name: string): Promise<boolean> {
  const roots = await listByName(connection, name)
  return roots.some(({ workflowId }) => !Object.values(ROOT_IDS).some((idOf) => workflowId.startsWith(idOf(name))))
}

/** Roots, and evaluations inside of them, that carry a run's name. */
export async function listByName({ client }: LonghaulConnection, run: string): Promise<WorkflowExecutionInfo[]> {
  if (!/^[A-Za-z0-9._-]+$/.test(run)) return []
  const query = `TrainRun = '${run}' AND WorkflowType IN (${ROOT_TYPES})`
  const found: WorkflowExecutionInfo[] = []
  try {
    for await (const info of client.workflow.list({ query, pageSize: 50 })) found.push(info)
  } catch (error) {
    // gRPC 3: the namespace knows no such search attribute, so no run can carry it.
    if (grpcStatus(error) !== 3) throw error
  }
  return found
}

function isRunning({ status }: WorkflowExecutionDescription): boolean {
  return isOpen(status.name)
}

function isJoinable(found: WorkflowExecutionDescription): boolean {
  return isRunning(found) && !isClosing(found)
}

/** Of a root that was not started here (the Temporal UI, a schedule) no memo tells the request: its input does. */
async function isSameRequest<T extends RootInput>(
  existing: WorkflowExecutionDescription,
  root: StartRootInput<T>,
): Promise<boolean> {
  const request = existing.memo?.['request']
  if (request !== undefined) return isRequest(request, root)
  if (existing.type !== root.type) return false
  const input = await readInput(root.connection, existing)
  return input !== null && requestHash({ type: root.type, input: requestOf(root.type, input) }) === requestHash(root)
}

async function readInput(
  { client, namespace }: LonghaulConnection,
  { workflowId, runId }: WorkflowExecutionDescription,
): Promise<RootInput | null> {
  const { history } = await client.workflowService.getWorkflowExecutionHistory({
    namespace,
    execution: { workflowId, runId },
    maximumPageSize: 1,
  })
  const payload = history?.events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads?.[0]
  if (payload === undefined) return {}
  const input = await decodePayload(client, payload)
  return typeof input === 'object' ? (input ?? {}) : null
}

/** What an execution that was continued as new carries of its work: no part of the request. */
const PROGRESS = new Set(['opened', 'from', 'counts', 'paused', 'concurrency', 'page'])

function requestOf(type: keyof typeof ROOT_IDS, input: RootInput): RootInput {
  const request = Object.fromEntries(Object.entries(input).filter(([key]) => !PROGRESS.has(key)))
  return type === 'gradePredictions' ? request : { recipe: DEFAULT_RECIPES[type], ...request }
}

/** Earlier versions hashed the text of a recipe, comments and all. */
function isRequest<T extends RootInput>(stored: unknown, root: StartRootInput<T>): boolean {
  return stored === requestHash(root) || stored === hashOf(root.type, root.input)
}

/** Of a request for an evaluation, without the run's name: two requests of the same hash do the same work. */
export function evaluationRequestHash(input: Omit<EvaluateInput, 'child'>): string {
  return requestHash({ type: 'evaluate', input: { recipe: DEFAULT_RECIPES.evaluate, ...input } })
}

/** What makes two requests the same: everything that is sent but the run's name and the layout of a recipe's text. */
function requestHash<T extends RootInput>({ type, input }: Pick<StartRootInput<T>, 'type' | 'input'>): string {
  const { recipeText } = input
  return hashOf(type, recipeText === undefined ? input : { ...input, recipeText: recipeOf(recipeText) })
}

function hashOf(type: string, input: object): string {
  const { run: _, ...rest } = input as { run?: string }
  return createHash('sha256')
    .update(canonical({ type, ...rest }))
    .digest('hex')
}

/** The recipe that a text states; the text itself where it states none, which the run then says. */
function recipeOf(text: string): unknown {
  try {
    return parse(text) as unknown
  } catch {
    return text
  }
}

function canonical(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  const entries = Object.entries(value).filter(([, entry]) => entry !== undefined)
  const sorted = entries.toSorted(([a], [b]) => (a < b ? -1 : 1))
  return `{${sorted.map(([key, entry]) => `${JSON.stringify(key)}:${canonical(entry)}`).join(',')}}`
}

function idOf<T extends RootInput>({ type }: StartRootInput<T>, run: string): string {
  return ROOT_IDS[type](run)
}

/** 0 → a, 25 → z, 26 → aa. */
function letters(number: number): string {
  const last = String.fromCharCode(97 + (number % 26))
  return number < 26 ? last : letters(Math.floor(number / 26) - 1) + last
}

/** Naming may try several ids, each a call: the bound is on all of them together. */
async function bounded<T>({ client, address }: LonghaulConnection, call: () => Promise<T>): Promise<T> {
  try {
    return await client.withDeadline(Date.now() + 3 * CALL_TIMEOUT_MS, call)
  } catch (cause) {
    // gRPC 4, 14: deadline exceeded, unavailable.
    if (
      ![4, 14].includes(
        Number((cause as { code?: unknown }).code ?? (cause as { cause?: { code?: unknown } }).cause?.code),
      )
    ) {
      throw cause
    }
    throw new LonghaulError({
      code: 'Temporal.Unreachable',
      message: `The Temporal server at ${address} did not answer in time`,
      cause,
    })
  }
}
