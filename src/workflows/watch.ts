import type { WatchInput, WatchResult } from '../contracts/alarms.types.ts'
import { alarms, slowControl } from './activity-proxies.ts'
import { withCode } from './failures.ts'
import { requireResult } from './require-result.ts'

/**
 * One round of the watch: finds new alarms and sends them, one after another. Its own schedule starts a round every few minutes, so
 * it keeps no state and never continues as new. No children. If a receiver accepts no alarm, the round tries every other alarm and
 * then fails with the code of the last attempt; the next round tries again. On cancel the open alarm stays unsent.
 */
export async function watch(input: WatchInput): Promise<WatchResult> {
  let sent = 0
  let refusal: unknown = null
  try {
    const found = requireResult('findAlarms', await slowControl.findAlarms(input))
    for (const alarm of found.alarms) {
      try {
        const answer = await alarms.sendAlarm({ alarm, receiver: input.receiver })
        if (requireResult('sendAlarm', answer).sent) sent += 1
      } catch (error) {
        refusal = error
      }
    }
    if (refusal !== null) throw refusal
    return { sent, givenUp: found.givenUp, notLookedAt: found.notLookedAt }
  } catch (error) {
    throw withCode(error)
  }
}
