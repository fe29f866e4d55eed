import type { WatchInput, WatchResult } from '../contracts/alarms.types.ts'
import { alarms, slowControl } from './activity-proxies.ts'
import { withCode } from './failures.ts'

/**
 * One round of the watch: finds what is new and sends it, one alarm after another. A schedule beside the nights starts it every few
 * minutes, so it keeps no state and continues as nothing. No children. A receiver that takes no alarm ends the round as failed, with the
 * code of the last attempt, after every other alarm was tried; the next round tries again. On cancel the open alarm stays unsent.
 */
export async function watch(input: WatchInput): Promise<WatchResult> {
  let sent = 0
  let refusal: unknown = null
  try {
    const found = await slowControl.findAlarms(input)
    for (const alarm of found.alarms) {
      try {
        if ((await alarms.sendAlarm({ alarm, receiver: input.receiver })).sent) sent += 1
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
