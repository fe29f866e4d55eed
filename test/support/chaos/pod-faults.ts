/** Faults of a cluster: pods are evicted, deleted and removed from their node, and the API server freezes. */
import { setTimeout as sleep } from 'node:timers/promises'
import { signalProcess } from '../../../src/platform/processes.ts'
import type { ChaosPods } from './chaos-pods.ts'
import { untilStopped } from './effects.ts'
import type { Fault } from './faults.ts'
import { type Visit, WITH_AGENT } from './phases.ts'
import type { Strike } from './visits.ts'

/** A deleted pod is marked at once, but the machine may be busy. */
const LEAVING_MS = 30_000
/** Longer than an attempt waits for a sign of life. */
const FROZEN_MS = 8_000
/** Long enough that replaced pods find no node. */
const NODE_AWAY_MS = 4_000
const NODE = '127.0.0.1'

export const POD_FAULTS: readonly Fault[] = [
  {
    name: 'eviction',
    phases: WITH_AGENT,
    expects: 'identical',
    strike: ({ stack, visit }) =>
      takeAway(stack.pods(), visit, async (pods, name) => {
        const path = `/api/v1/namespaces/${pods.namespace}/pods/${name}/eviction`
        const metadata = { name, namespace: pods.namespace }
        const body = { apiVersion: 'policy/v1', kind: 'Eviction', metadata }
        await pods.kubectl(['create', '--raw', path, '-f', '-'], JSON.stringify(body))
      }),
  },
  {
    name: 'pod-delete',
    phases: WITH_AGENT,
    expects: 'identical',
    // All pods of the namespace: every episode is placed again at once.
    strike: ({ stack, visit }) =>
      takeAway(stack.pods(), visit, async (pods) => {
        await pods.kubectl(['delete', 'pod', ...(await pods.staying()), '--wait=false'])
      }),
  },
  {
    name: 'node-loss',
    phases: WITH_AGENT,
    expects: 'identical',
    strike: async ({ stack, visit }) => {
      const pods = stack.pods()
      const taint = (what: string): Promise<string> =>
        pods.kubectl(['taint', 'node', NODE, `longhaul.test/lost${what}`])
      let over: Promise<unknown> = Promise.resolve()
      const strike = await takeAway(pods, visit, async () => {
        await taint('=1:NoExecute')
        over = sleep(NODE_AWAY_MS).then(() => taint('-'))
      })
      return { ...strike, over }
    },
  },
  {
    name: 'api-server-frozen',
    // Graders are containers, so the cluster gets no request while they run.
    phases: ['placing', ...WITH_AGENT],
    expects: 'identical',
    strike: async ({ stack }) => {
      const pods = stack.pods()
      const server = await pods.apiServer()
      signalProcess(server, 'SIGSTOP')
      const froze = await untilStopped(server)
      let wasDeaf = false
      const over = sleep(FROZEN_MS)
        .then(async () => (wasDeaf = await pods.isDeaf()))
        .finally(() => signalProcess(server, 'SIGCONT'))
      return { over, seen: () => froze && wasDeaf }
    },
  },
]

/**
 * Seen if the visited episode's pod is terminating while its visitor still waits, because then the episode itself cannot have closed
 * it. A visit whose pod is already gone is not struck.
 */
async function takeAway(
  pods: ChaosPods,
  { container, episode }: Visit,
  strike: (pods: ChaosPods, name: string) => Promise<void>,
): Promise<Strike> {
  const before = container === null ? await pods.staying(episode ?? '') : await pods.staying()
  const name = container ?? before[0]
  if (name === undefined || !before.includes(name)) return { seen: () => false }
  await strike(pods, name)
  for (const deadline = Date.now() + LEAVING_MS; Date.now() < deadline; await sleep(200)) {
    if (!(await pods.staying()).includes(name)) return { seen: () => true }
  }
  return { seen: () => false }
}
