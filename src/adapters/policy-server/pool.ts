import { isLonghaulError } from '../../contracts/errors.ts'
import type { PolicyClient, PolicyPool, PooledServer } from '../../contracts/policy.types.ts'
import { sha256Hex } from '../../platform/hash.ts'

interface PoolOptions {
  /** How long servers are tried in turn while none answers. @default 0: each is tried once */
  unavailableTimeoutMs?: number
  /** @default Date.now */
  now?: () => number
}

/**
 * Presents several servers of the same policies as one. A session stays with the server that holds its prefix. If that server does not
 * answer, the next in the session's own order is tried, which gives the same tokens for the same seed. A silent server is tried last
 * for a while, so that a session waits for it only once. New weights go to every server, and a server that cannot load them is an
 * error. Each server is verified on its own.
 */
export function poolOf(
  servers: readonly PooledServer[],
  { unavailableTimeoutMs = 0, now = Date.now }: PoolOptions = {},
): PolicyPool {
  const silentUntilMs = new Map<string, number>()
  const isSilent = ({ url }: PooledServer): boolean => (silentUntilMs.get(url) ?? 0) > now()
  const ordered = (key: string): PooledServer[] => {
    const all = orderFor(key, servers)
    return [...all.filter((server) => !isSilent(server)), ...all.filter(isSilent)]
  }
  /** Only silence moves on to the next server. A refusal is an answer, and the caller must see a refusal that concerns the policy. */
  const firstToAnswer = async <T>(
    inOrder: readonly PooledServer[],
    ask: (client: PolicyClient) => Promise<T>,
  ): Promise<T> => {
    const startedMs = now()
    for (let asked = 0; ; asked++) {
      const server = inOrder[asked % inOrder.length] as PooledServer
      try {
        return await ask(server.client)
      } catch (error) {
        if (!isLonghaulError(error) || error.code !== 'Model.Unavailable') throw error
        silentUntilMs.set(server.url, now() + ASKED_LAST_MS)
        const limitMs = asked + 1 < inOrder.length ? LAST_SERVER_AFTER_MS : unavailableTimeoutMs
        if (now() - startedMs >= limitMs) throw error
      }
    }
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

/** Rendezvous hashing, highest hash first: a server that is added or removed moves only its own sessions. */
export function orderFor<T extends { url: string }>(key: string, servers: readonly T[]): T[] {
  const weight = ({ url }: T) => sha256Hex(`${key}\n${url}`)
  return [...servers].sort((a, b) => (weight(a) < weight(b) ? 1 : -1))
}

/** No further server is tried after this time. Each may take as long again, and callers have their own limit. */
const LAST_SERVER_AFTER_MS = 10 * 60_000
/** How long a silent server is tried last. Afterwards its sessions return to it. */
const ASKED_LAST_MS = 30_000
