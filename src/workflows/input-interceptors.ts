/**
 * Checks what a workflow was started with. Roots are started by people too, in the Temporal UI and on the command line, where nothing
 * knows their types: a misspelt key would train the demo instead of the recipe that was meant, and `null` would block the first
 * workflow task for good.
 */
import { defaultPayloadConverter, type Payload } from '@temporalio/common'
import { log, patched, type WorkflowInterceptorsFactory, workflowInfo } from '@temporalio/workflow'
import { isRunName } from '../contracts/keys.ts'
import type {
  EvaluateInput,
  GateSuiteInput,
  GradePredictionsInput,
  TrainAgentInput,
} from '../contracts/workflows.types.ts'
import {
  type Check,
  isCount,
  isFlag,
  isId,
  isNumber,
  isObject,
  isText,
  listOf,
  oneOf,
  optional,
  shape,
} from '../domain/shapes.ts'
import { failRun } from './failures.ts'
import { isPolicy, isPreparedSuite } from './require-result.ts'
import { endingWhatIsLeft } from './run-child.ts'

interface Rule {
  check: Check
  /** Completes "Expected recipe to be …". */
  expected: string
}

// Null is no way to leave a key out: as a run's name it would be read as "null".
const TEXT: Rule = { check: (value) => value === undefined || isText(value), expected: 'a text' }
const OBJECT: Rule = {
  check: (value) => value === undefined || isObject(value),
  expected: 'an object of keys of the recipe',
}
const COUNT: Rule = { check: isCount, expected: 'a whole number' }
const ID: Rule = { check: isId, expected: 'a text of 1 to 1,000 characters' }
const RUN: Rule = { check: (value) => typeof value === 'string' && isRunName(value), expected: 'the name of a run' }

const isPlan = shape({ run: RUN.check, recipe: isObject, summary: isText, stages: listOf(isObject) })
const PLAN: Rule = { check: isPlan, expected: 'a resolved run' }
const POLICY: Rule = { check: isPolicy, expected: 'a policy' }
const PAUSED: Rule = { check: optional(isFlag), expected: 'true or false' }
const CONCURRENCY: Rule = { check: optional(isCount), expected: 'a whole number or null' }

const REQUEST = { recipe: TEXT, recipeText: TEXT, overrides: OBJECT, run: TEXT } satisfies Partial<
  Rules<TrainAgentInput>
>
const EPISODES = { run: RUN, stage: ID, iteration: COUNT, suite: ID }

type Rules<Input> = Record<keyof Required<Input>, Rule>

/** Everything that a root takes: another key is a mistake of the person who started it. */
const ROOTS: Readonly<Record<string, Readonly<Record<string, Rule>>>> = {
  trainAgent: { ...REQUEST, gitSha: TEXT } satisfies Rules<TrainAgentInput>,
  evaluate: {
    ...REQUEST,
    gitSha: TEXT,
    policy: TEXT,
    series: TEXT,
    child: {
      check: optional(shape({ plan: isPlan, name: isId, policy: isPolicy })),
      expected: 'left out, because only a training run sets it',
    },
  } satisfies Rules<EvaluateInput>,
  gateSuite: {
    ...REQUEST,
    which: { check: optional(oneOf('train', 'heldOut')), expected: '"train" or "heldOut"' },
    page: {
      check: optional(shape({ plan: isPlan, suite: isPreparedSuite, from: isCount, refused: isCount })),
      expected: 'left out, because only the gate itself sets it',
    },
  } satisfies Rules<GateSuiteInput>,
  gradePredictions: {
    ...REQUEST,
    predictions: TEXT,
    suite: TEXT,
    regrade: TEXT,
    stages: { check: optional(listOf(isText)), expected: 'a list of stages' },
    profile: TEXT,
    opened: {
      check: optional(shape({ run: RUN.check, name: isText, patches: isCount })),
      expected: 'left out, because only the grading itself sets it',
    },
    from: { check: optional(isCount), expected: 'a whole number' },
    counts: {
      check: optional(shape({ resolved: isNumber, unresolved: isNumber, couldNotGrade: isNumber })),
      expected: 'left out, because only the grading itself sets it',
    },
    paused: PAUSED,
    concurrency: CONCURRENCY,
  } satisfies Rules<GradePredictionsInput>,
}

/** What the others cannot do without. Their parents may be newer and send further keys. */
const OTHERS: Readonly<Record<string, Readonly<Record<string, Rule>>>> = {
  rejectionFineTune: { plan: PLAN, policy: POLICY, suite: ID },
  reinforce: { plan: PLAN, stageIndex: COUNT, policy: POLICY, suite: ID },
  rollout: {
    ...EPISODES,
    policy: POLICY,
    plan: { check: shape({ key: isId }), expected: 'a stored plan' },
    tasks: COUNT,
    groupSize: COUNT,
    maxReplacements: COUNT,
    maxOpenGroups: COUNT,
    concurrency: CONCURRENCY,
    paused: PAUSED,
  },
  promptGroup: { ...EPISODES, policy: ID, taskId: ID, groupSize: COUNT, maxReplacements: COUNT },
  episode: { ...EPISODES, policy: ID, taskId: ID, index: COUNT },
  gateTasks: { plan: PLAN, suite: { check: isPreparedSuite, expected: 'a prepared suite' } },
  readEvaluation: { run: RUN },
  host: { host: ID, holder: { check: shape({ queue: isId, engine: isText }), expected: 'a queue and an engine' } },
  watch: {
    receiver: { check: shape({ urlVariable: isId, secretVariable: optional(isId) }), expected: 'a receiver of alarms' },
    blockerMinutes: { check: isNumber, expected: 'a number' },
    runs: { check: oneOf('scheduled', 'all'), expected: '"scheduled" or "all"' },
  },
}

export const interceptors: WorkflowInterceptorsFactory = () => ({
  inbound: [
    {
      execute(input, next) {
        const problem = problemOf(workflowInfo().workflowType, input.args)
        // Executions that began before this rule go on.
        if (problem !== null && patched('input-checked')) throw refused(problem)
        return endingWhatIsLeft(() => next(input))
      },
    },
  ],
  internals: [
    {
      activate(input, next) {
        for (const { initializeWorkflow, signalWorkflow } of input.activation.jobs ?? []) {
          if (initializeWorkflow && !isReadable(initializeWorkflow.arguments))
            initializeWorkflow.arguments = [UNREADABLE]
          if (signalWorkflow && !isReadable(signalWorkflow.input)) {
            log.warn('a signal was ignored, because its payload cannot be read', { signal: signalWorkflow.signalName })
            // No workflow handles it. What it carries, if anything, was for the handler of another name.
            Object.assign(signalWorkflow, { signalName: `unreadable ${signalWorkflow.signalName}`, input: [] })
          }
        }
        return next(input)
      },
    },
  ],
})

/** Stands for a start's input, so that the check below refuses it. */
const UNREADABLE = defaultPayloadConverter.toPayload('an input that cannot be read')

/**
 * Anybody can send bytes that say to be JSON and are not, or name an encoding that the SDK does not know. The SDK would fail the
 * workflow task, and the server would repeat it for ever.
 */
function isReadable(payloads: readonly Payload[] | null | undefined): boolean {
  try {
    for (const payload of payloads ?? []) defaultPayloadConverter.fromPayload(payload)
    return true
  } catch {
    return false
  }
}

function refused(problem: string): Error {
  const failure = failRun('Config.Invalid', problem)
  // The message is complete, and the stack of the check would not help.
  failure.stack = ''
  return failure
}

function problemOf(type: string, args: readonly unknown[]): string | null {
  const root = ROOTS[type]
  const rules = root ?? OTHERS[type]
  if (rules === undefined) return null
  const [input] = args
  const example = root === undefined ? 'its input' : 'one JSON object, such as {"recipe": "demo"}'
  if (args.length > 1) return `Expected ${type} to be started with ${example}, got ${args.length} arguments`
  if (input === undefined && root !== undefined) return null
  if (!isObject(input)) return `Expected ${type} to be started with ${example}, got ${quote(input)}`
  if (root !== undefined) {
    const unknown = Object.keys(input).find((key) => !Object.hasOwn(rules, key))
    if (unknown !== undefined)
      return `${type} has no input ${quote(unknown)}; it takes ${Object.keys(rules).join(', ')}`
  }
  for (const [key, { check, expected }] of Object.entries(rules)) {
    if (!check(input[key])) return `Expected ${key} of ${type} to be ${expected}, got ${quote(input[key])}`
  }
  return null
}

function quote(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing'
  return text.length <= 100 ? text : `${text.slice(0, 100)}…`
}
