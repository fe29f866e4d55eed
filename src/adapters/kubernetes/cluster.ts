import { Agent, WebSocket, fetch } from 'undici'
import { type ClusterAccess, type ClusterCredentials, readClusterAccess } from './cluster-access.ts'
import { ClusterRefusal, ForeignAnswer } from './cluster-errors.ts'
import { ExecStream } from './exec-stream.ts'

/** An API server is slow when etcd is slow. */
const ANSWER_MS = 30_000
/** An exec also involves the kubelet and the container runtime. */
const EXEC_MS = 60_000
/** Newest first. Servers before 1.30 support only the second. */
const EXEC_PROTOCOLS = ['v5.channel.k8s.io', 'v4.channel.k8s.io']

export interface ClusterRequest {
  method?: 'GET' | 'POST' | 'DELETE'
  /** A path such as `/api/v1/namespaces/x/pods`, with its query. */
  path: string
  body?: object
  signal?: AbortSignal
  /** @default 30_000 */
  timeoutMs?: number
}

export type { WebSocket }

/** One namespace of a cluster. */
export interface Cluster {
  server: string
  namespace: string
  /** `/api/v1/namespaces/NAMESPACE/KIND` */
  pathOf(kind: string, name?: string): string
  /** @throws ClusterRefusal, or the error of the connection */
  ask(request: ClusterRequest): Promise<unknown>
  /** Runs a program in the only container of a pod, connected to the returned streams. @throws ClusterRefusal */
  exec(pod: string, command: readonly string[]): Promise<ExecStream>
  dispose(): void
}

interface ConnectClusterInput {
  /** @default the context's namespace, otherwise `default` */
  namespace?: string | null
  /** @default the settings that `kubectl` would use */
  access?: ClusterAccess
}

/** @throws LonghaulError `Config.Invalid` if no cluster is configured. An unreachable cluster only fails the first request. */
export async function connectCluster({ namespace, access }: ConnectClusterInput = {}): Promise<Cluster> {
  const reached = access ?? (await readClusterAccess())
  const place = namespace ?? reached.namespace ?? 'default'
  const agents = createAgents(reached)
  const ask = async ({ method = 'GET', path, body, signal, timeoutMs = ANSWER_MS }: ClusterRequest) => {
    const { agent, headers } = await agents.current()
    const deadline = AbortSignal.timeout(timeoutMs)
    const response = await fetch(`${reached.server}${path}`, {
      method,
      dispatcher: agent,
      // An API server sends none: what does is a sign-in page or a proxy.
      redirect: 'manual',
      headers: { ...headers, accept: 'application/json', 'content-type': 'application/json' },
      signal: signal === undefined ? deadline : AbortSignal.any([signal, deadline]),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (response.status >= 300 && response.status < 400) throw new ForeignAnswer(response.status)
    if (!response.ok) throw new ClusterRefusal(response.status, text)
    try {
      return JSON.parse(text) as unknown
    } catch {
      throw new ForeignAnswer(response.status)
    }
  }
  const pathOf = (kind: string, name?: string): string => {
    const group = kind === 'networkpolicies' ? '/apis/networking.k8s.io/v1' : '/api/v1'
    return `${group}/namespaces/${place}/${kind}${name === undefined ? '' : `/${name}`}`
  }
  return {
    server: reached.server,
    namespace: place,
    pathOf,
    ask,
    async exec(pod, command) {
      const { agent, headers } = await agents.current()
      const words = command.map((word) => `command=${encodeURIComponent(word)}`).join('&')
      const path = `${pathOf('pods', pod)}/exec?container=sandbox&stdin=true&stdout=true&stderr=true&${words}`
      const url = `${reached.server.replace(/^http/, 'ws')}${path}`
      const socket = new WebSocket(url, { protocols: EXEC_PROTOCOLS, dispatcher: agent, headers })
      try {
        return await ExecStream.open(socket, EXEC_MS)
      } catch (error) {
        // A refused upgrade reports no status. The same request without an upgrade is refused for the same reason, with a description.
        await ask({ path, timeoutMs: EXEC_MS }).catch((refusal: unknown) => {
          if (refusal instanceof ClusterRefusal && refusal.status !== 400) throw refusal
        })
        throw error
      }
    },
    dispose: agents.dispose,
  }
}

/** Keeps one connection pool per set of credentials, because certificates belong to connections and tokens to requests. */
function createAgents({ ca, skipsVerification, serverName, credentials }: ClusterAccess) {
  let known: { agent: Agent; cert: string | undefined } | null = null
  const agentFor = ({ cert, key }: ClusterCredentials): Agent => {
    if (known !== null && known.cert === cert) return known.agent
    // The old pool closes after its last request.
    void known?.agent.close().catch(() => undefined)
    const agent = new Agent({
      // Over HTTP/2 a server would have to support web sockets.
      allowH2: false,
      connect: {
        rejectUnauthorized: !skipsVerification,
        ...(ca === undefined ? {} : { ca }),
        ...(cert === undefined ? {} : { cert }),
        ...(key === undefined ? {} : { key }),
        ...(serverName === undefined ? {} : { servername: serverName }),
      },
    })
    known = { agent, cert }
    return agent
  }
  return {
    async current(): Promise<{ agent: Agent; headers: Record<string, string> }> {
      const { token, ...rest } = await credentials()
      return { agent: agentFor(rest), headers: token === undefined ? {} : { authorization: `Bearer ${token}` } }
    },
    dispose(): void {
      void known?.agent.destroy().catch(() => undefined)
    },
  }
}
