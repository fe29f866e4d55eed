import { setTimeout as sleep } from 'node:timers/promises'
import { isLonghaulError } from '../../contracts/errors.ts'
import type { ChatClient, PolicyClient } from '../../contracts/policy.types.ts'
import { noteTrouble, waitingFor } from './wait-board.ts'

export interface WatchPolicyInput {
  client: PolicyClient
  url: string
  /** How long a server that serves another policy amid an episode is waited for: a person restarts it on the right one.
   *  @default 0 */
  servedWithinMs?: number
  /** @default 10_000 */
  askEveryMs?: number
}

/** A policy client whose calls are named in the heartbeats of the activity that waits for them. */
export function watchPolicy({ client, url, servedWithinMs = 0, askEveryMs = 10_000 }: WatchPolicyInput): PolicyClient {
  const during = <T>(doing: string, work: () => Promise<T>): Promise<T> =>
    waitingFor({ doing, on: { kind: 'policy-server', name: url } }, work)
  const onceServed = <T>(doing: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> =>
    during(doing, async () => {
      for (const untilMs = Date.now() + servedWithinMs; ; ) {
        try {
          return await work()
        } catch (error) {
          if (!isLonghaulError(error) || error.code !== 'Model.NotServed' || Date.now() >= untilMs) throw error
          noteTrouble(error)
          await sleep(askEveryMs, undefined, { signal }).catch(() => signal.throwIfAborted())
        }
      }
    })
  return {
    sample: (request, signal) =>
      onceServed(`sampling from ${request.policy}`, signal, () => client.sample(request, signal)),
    tokenize: (request, signal) => onceServed('tokenizing', signal, () => client.tokenize(request, signal)),
    load: (request, signal) => during(`loading ${request.policy.version}`, () => client.load(request, signal)),
    score: (request, signal) => during(`scoring with ${request.policy}`, () => client.score(request, signal)),
    release: (request) => during('giving leases back', () => client.release(request)),
    served: (signal) => during('asking for the served policies', () => client.served(signal)),
  }
}

/** The same for an endpoint that answers with text. */
export function watchChat({ client, url, model }: { client: ChatClient; url: string; model: string }): ChatClient {
  const during = <T>(doing: string, work: () => Promise<T>): Promise<T> =>
    waitingFor({ doing, on: { kind: 'policy-server', name: url } }, work)
  return {
    reply: (request, signal) => during(`asking ${model}`, () => client.reply(request, signal)),
    check: (signal) => during(`asking whether ${model} can be used`, () => client.check(signal)),
  }
}
