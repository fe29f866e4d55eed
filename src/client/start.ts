import type { LonghaulConnection } from './connect.ts'
import { borrowConnection, makeRunHandle, type RunHandle } from './run-handle.ts'
import { type ROOT_IDS, type RootInput, startRoot } from './start-root.ts'
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

/** What every start takes beside the request itself. */
interface StartOptions {
  /** @default one from the environment, closed by the handle's `close` */
  connection?: LonghaulConnection
  /** Start a new run although the same request is under way. @default false */
  fresh?: boolean
}

interface StartRunInput {
  type: keyof typeof ROOT_IDS
  /** Begins the run's name where the request gives none. */
  name: string
  request: RootInput & StartOptions
}

/** Starts a root, or joins the same request under way. */
async function startRun<T>({ type, name, request }: StartRunInput): Promise<RunHandle<T>> {
  const { connection: given, fresh = false, ...input } = request
  const { connection, ownsConnection } = await borrowConnection(given)
  const started = await startRoot({ connection, type, input, recipe: name, fresh })
  return makeRunHandle<T>({ connection, ownsConnection, ...started })
}

export interface StartEvaluationInput extends Omit<EvaluateInput, 'child'>, StartOptions {}

/** Evaluates a policy on the recipe's held-out suite, or joins the same request under way. */
export function startEvaluation(input: StartEvaluationInput = {}): Promise<RunHandle<EvaluateResult>> {
  const recipe = input.recipe ?? 'nightly'
  return startRun({ type: 'evaluate', name: recipe, request: { ...input, recipe } })
}

export interface StartGateInput extends Omit<GateSuiteInput, 'page'>, StartOptions {}

/** Gates a recipe's suite, or joins the same request under way. What was graded before, by any run, is not graded again. */
export function startGate(input: StartGateInput = {}): Promise<RunHandle<GateSuiteResult>> {
  const recipe = input.recipe ?? 'demo'
  return startRun({ type: 'gateSuite', name: recipe, request: { ...input, recipe } })
}

export interface StartGradingInput
  extends Omit<GradePredictionsInput, 'opened' | 'from' | 'counts' | 'paused'>,
    StartOptions {}

/** Grades anyone's predictions, or the stored patches of a run again; joins the same request under way. */
export function startGrading(input: StartGradingInput): Promise<RunHandle<GradePredictionsResult>> {
  const name = input.regrade === undefined ? 'grade' : `regrade-${input.regrade}`.slice(0, 80)
  return startRun({ type: 'gradePredictions', name, request: input })
}

export interface StartTrainingInput extends TrainAgentInput, StartOptions {}

/** Starts the whole job (gate, base, RFT, DAPO, evaluations, promotion, report), or joins the same request under way. */
export function startTraining(input: StartTrainingInput = {}): Promise<RunHandle<TrainAgentResult>> {
  const recipe = input.recipe ?? 'demo'
  return startRun({ type: 'trainAgent', name: recipe, request: { ...input, recipe } })
}
