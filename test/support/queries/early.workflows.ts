/** Workflows for `early-query.test.ts`. */
import { condition, defineQuery, defineSignal, proxyActivities, setHandler, sleep } from '@temporalio/workflow'

export const hasResultQuery = defineQuery<boolean>('hasResult')
export const pokeSignal = defineSignal('poke')
export const endSignal = defineSignal('end')

const { answerLater } = proxyActivities<{ answerLater(): Promise<void> }>({ startToCloseTimeout: '10 minutes' })

/** Starts a timer if a poke finds that the activity has ended: on replay, signals are applied before all else of their workflow task. */
export async function subject(): Promise<void> {
  let hasResult = false
  let isOver = false
  setHandler(hasResultQuery, () => hasResult)
  setHandler(pokeSignal, () => {
    if (hasResult) void sleep('1 day')
  })
  setHandler(endSignal, () => {
    isOver = true
  })
  void answerLater().then(() => {
    hasResult = true
  })
  await condition(() => isOver)
}

/** Occupies a worker for about a second. */
export async function busy(): Promise<number> {
  let sum = 0
  for (let step = 0; step < 6e8; step += 1) sum += step % 7
  return sum
}
