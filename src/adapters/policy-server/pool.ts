import { isLonghaulError } from '../../contracts/errors.ts'
import type { PolicyClient, PolicyPool, PooledServer } from '../../contracts/policy.types.ts'
import { sha256Hex } from '../../platform/hash.ts'

/**
 * Several servers of the same policies as one. A session stays with one server, which holds its prefix; where that one does not
 * answer, the next in the session's own order is asked: the same seed gives the same tokens there. New weights go to all, and
 * one server that cannot have them is an error. Servers are never asked about each other: each is verified by itself.
 */
export function poolOf(servers: readonly PooledServer[], now: () => number = Date.now): PolicyPool {
  const ordered = (key: string): PolicyClient[] => orderFor(key, servers).map(({ client }) => client)
  /** Only silence moves on to the next server: a refusal is an answer, and one about the policy must be heard. */
  const firstToAnswer = async <T>(
    clients: readonly PolicyClient[],
    ask: (client: PolicyClient) => Promise<T>,
  ): Promise<T> => {
    const startedMs = now()
    let silence: unknown = new Error('a pool has at least one server')
    for (const client of clients) {
      try {
        return await ask(client)
      } catch (error) {
        if (!isLonghaulError(error) || error.code !== 'Model.Unavailable') throw error
        silence = error
        if (now() - startedMs >= LAST_SERVER_AFTER_MS) break
      }
    }
    throw silence
  }
  return {
    servers,
    sample: (request, signal) => firstToAnswer(ordered(request.session), (client) => client.sample(request, signal)),
    tokenize: (request, signal) => firstToAnswer(ordered(request.text), (client) => client.tokenize(request, signal)),
    score: (request, signal) =>
      firstToAnswer(ordered(String(request.ids[0])), (client) => client.score(request, signal)),
    async load(request, signal) {
      await Promise.all(servers.map(({ client }) => client.load(request, signal)))
    },
    async release(request) {
      await Promise.all(servers.map(({ client }) => client.release(request)))
    },
    async served(signal) {
      const lists = await Promise.all(servers.map(({ client }) => client.served(signal)))
      const [first = [], ...others] = lists
      return first.filter((version) => others.every((list) => list.includes(version)))
    },
  }
}

/** Highest hash first: a server that comes or goes moves only its own sessions. */
export function orderFor<T extends { url: string }>(key: string, servers: readonly T[]): T[] {
  const weight = ({ url }: T) => sha256Hex(`${key}\n${url}`)
  return [...servers].sort((a, b) => (weight(a) < weight(b) ? 1 : -1))
}

/** No further server is asked after this long: each may take as long again, and callers have their own limit. */
const LAST_SERVER_AFTER_MS = 10 * 60_000
