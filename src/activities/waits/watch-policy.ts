import type { ChatClient, PolicyClient } from '../../contracts/policy.types.ts'
import { waitingFor } from './wait-board.ts'

/** A policy client whose calls are named in the heartbeats of the activity that waits for them. */
export function watchPolicy({ client, url }: { client: PolicyClient; url: string }): PolicyClient {
  const during = <T>(doing: string, work: () => Promise<T>): Promise<T> =>
    waitingFor({ doing, on: { kind: 'policy-server', name: url } }, work)
  return {
    sample: (request, signal) => during(`sampling from ${request.policy}`, () => client.sample(request, signal)),
    tokenize: (request, signal) => during('tokenizing', () => client.tokenize(request, signal)),
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
