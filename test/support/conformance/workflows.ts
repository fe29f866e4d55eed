/** Small workflows, one for each rule of the server. They return what they saw, so that failures are compared too. */
import {
  ActivityFailure,
  type ActivityOptions,
  ApplicationFailure,
  CancellationScope,
  CancelledFailure,
  ChildWorkflowFailure,
  condition,
  continueAsNew,
  defineSignal,
  defineUpdate,
  executeChild,
  getExternalWorkflowHandle,
  isCancellation,
  makeContinueAsNewFunc,
  patched,
  proxyActivities,
  setHandler,
  sleep,
  startChild,
  type ChildWorkflowOptions,
  TimeoutFailure,
  upsertMemo,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow'

export interface ScenarioInput {
  scenario: string
}

interface Activities {
  work(input: ScenarioInput): Promise<string>
}

const go = defineSignal('go')
const add = defineUpdate<number, [number]>('add')

/** The parts of an error that a workflow can see, down to its cause. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const facts = [
    error instanceof ActivityFailure || error instanceof ChildWorkflowFailure ? error.retryState : null,
    error instanceof ApplicationFailure ? `${error.type} ${error.nonRetryable ? 'for good' : ''}`.trim() : null,
    error instanceof TimeoutFailure
      ? `${error.timeoutType} ${JSON.stringify(error.lastHeartbeatDetails ?? null)}`
      : null,
  ].filter((fact) => fact !== null)
  const cause = error.cause === undefined ? '' : ` < ${describe(error.cause)}`
  return `${error.name}(${facts.join(', ')})${cause}`
}

async function told(work: Promise<unknown>): Promise<string> {
  try {
    return `result ${JSON.stringify(await work)}`
  } catch (error) {
    return describe(error)
  }
}

const waitForGo = async (): Promise<void> => {
  let went = false
  setHandler(go, () => {
    went = true
  })
  await condition(() => went, '10m')
}

export interface OneActivityInput extends ScenarioInput {
  options: ActivityOptions
  /** Cancels the activity on the signal `go`. */
  cancels?: boolean
}

export async function oneActivity({ scenario, options, cancels = false }: OneActivityInput): Promise<string> {
  const { work } = proxyActivities<Activities>(options)
  if (!cancels) return told(work({ scenario }))
  const scope = new CancellationScope()
  const answer = told(scope.run(() => work({ scenario })))
  await waitForGo()
  scope.cancel()
  return answer
}

/** Cleans up after its cancellation, and then ends as cancelled. */
export async function cleansUp({ scenario }: ScenarioInput): Promise<void> {
  const { work } = proxyActivities<Activities>({ startToCloseTimeout: '10s' })
  try {
    await sleep('10m')
  } catch (error) {
    if (isCancellation(error)) await CancellationScope.nonCancellable(() => work({ scenario }))
    throw error
  }
}

export type ChildRules = Pick<ChildWorkflowOptions, 'parentClosePolicy' | 'cancellationType' | 'workflowIdReusePolicy'>

export type ChildEnd = 'returns' | 'fails' | 'fails-for-good' | 'waits' | 'continues'

export async function child({ scenario, end }: ScenarioInput & { end: ChildEnd }): Promise<string> {
  if (end === 'fails') throw ApplicationFailure.create({ type: 'Model.Busy', message: 'child' })
  if (end === 'fails-for-good') throw ApplicationFailure.nonRetryable('child', 'Config.Invalid')
  if (end === 'continues') await continueAsNew<typeof child>({ scenario, end: 'returns' })
  if (end === 'waits') await waitForGo()
  return end
}

export interface ParentInput extends ScenarioInput {
  end: ChildEnd
  options: ChildRules
  /** The parent's action once the child has started. */
  next: 'awaits' | 'returns' | 'fails' | 'cancels' | 'continues'
}

export async function parent({ scenario, end, options, next }: ParentInput): Promise<string> {
  const scope = new CancellationScope()
  const handle = await scope.run(() =>
    startChild(child, { ...options, workflowId: `${scenario}/child`, args: [{ scenario, end }] }),
  )
  if (next === 'returns' || next === 'fails' || next === 'continues') await waitForGo()
  if (next === 'returns') return 'left'
  if (next === 'fails') throw ApplicationFailure.nonRetryable('parent')
  if (next === 'continues') await makeContinueAsNewFunc<typeof plain>({ workflowType: 'plain' })({ scenario })
  const answer = told(handle.result())
  if (next === 'cancels') {
    await waitForGo()
    scope.cancel()
  }
  return answer
}

export async function plain({ scenario }: ScenarioInput): Promise<string> {
  return scenario
}

/** Starts the same child twice, one after another or at once. */
export async function twice({
  scenario,
  end,
  options,
  together,
}: ScenarioInput & { end: ChildEnd; options: ChildRules; together: boolean }): Promise<string[]> {
  const start = () =>
    told(executeChild(child, { ...options, workflowId: `${scenario}/child`, args: [{ scenario, end }] }))
  if (!together) return [await start(), await start()]
  const first = await startChild(child, { ...options, workflowId: `${scenario}/child`, args: [{ scenario, end }] })
  const second = await start()
  return [await told(first.result()), second]
}

export async function counts({ scenario, left }: ScenarioInput & { left: number }): Promise<unknown> {
  upsertMemo({ left })
  upsertSearchAttributes({ Iteration: [left] })
  if (left > 0) await continueAsNew<typeof counts>({ scenario, left: left - 1 })
  const { memo, searchAttributes } = workflowInfo()
  return { memo, iteration: searchAttributes['Iteration'] }
}

/** Signals or cancels a workflow that is open or does not exist. */
export async function talks({ scenario, how }: ScenarioInput & { how: 'signal' | 'cancel' }): Promise<string> {
  const other = getExternalWorkflowHandle(`${scenario}/other`)
  return told(how === 'signal' ? other.signal('go') : other.cancel())
}

export async function listens(): Promise<number[]> {
  const values: number[] = []
  setHandler(
    add,
    async (value) => {
      await sleep(10)
      if (value > 100) throw ApplicationFailure.create({ type: 'TooMuch', message: 'too much' })
      values.push(value)
      return values.length
    },
    {
      validator: (value) => {
        if (value < 0) throw new Error('negative')
      },
    },
  )
  await waitForGo()
  return values
}

export async function marks(): Promise<string[]> {
  const seen = [patched('one') ? 'new' : 'old']
  // Cancelled in the task that would start it, then cancelled later.
  seen.push(String(await condition(() => true, '10m')))
  const scope = new CancellationScope()
  const slept = told(scope.run(() => sleep('10m')))
  await sleep(20)
  scope.cancel()
  seen.push(await slept, String(await condition(() => false, 20)))
  return seen
}

export async function fails({ nonRetryable }: ScenarioInput & { nonRetryable: boolean }): Promise<void> {
  await sleep(1)
  throw ApplicationFailure.create({ type: 'Unexpected', message: 'by itself', nonRetryable, details: [{ a: 1 }] })
}

/** Ends as cancelled without a request. */
export async function cancelsItself(): Promise<void> {
  await sleep(1)
  throw new CancelledFailure('by itself')
}
