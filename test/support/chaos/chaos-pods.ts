/** A chaos stack's own cluster for agents' sandboxes, and what the harness reads there, with `kubectl` and not with the product. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { LABELS } from '../../../src/adapters/docker/container/labels.ts'
import type { Engine } from '../../../src/adapters/docker/engine/engine.ts'
import { identify, type ProcessIdentity } from '../../../src/platform/processes.ts'
import { importInto, listPods, NAMESPACE, type SeenPod, startPodsCluster, stays } from '../kubernetes/pods-fixture.ts'
import { findKubernetes } from '../kubernetes/programs.ts'
import { type ContainerJournal, heldTurns, JOURNAL, PATIENCE_MS } from './container-journal.ts'

export interface ChaosPods {
  namespace: string
  /** Variables that make the host's worker place its sandboxes in pods. */
  environment: Record<string, string>
  /** Runs as admin. */
  kubectl(args: string[], input?: string): Promise<string>
  /** Names of all pods, even terminating ones. */
  names(): Promise<string[]>
  /** Names of pods that are not terminating, of one episode if it is named. */
  staying(episode?: string): Promise<string[]>
  apiServer(): Promise<ProcessIdentity>
  /** Whether the API server answers no request within two seconds. */
  isDeaf(): Promise<boolean>
  /** Imports the engine's task images that the node does not have yet. */
  importTaskImages(engine: Engine): Promise<void>
  /** @returns null if the cluster or the pod does not answer, because a deleted pod has no journal */
  readJournal(name: string): Promise<ContainerJournal | null>
  close(): Promise<void>
}

/** @throws if no cluster can run here */
export async function startChaosPods({ folder }: { folder: string }): Promise<ChaosPods> {
  const found = await findKubernetes()
  if ('reason' in found) throw new Error(found.reason)
  const { cluster, close } = await startPodsCluster(found.programs)
  const imported = new Set<string>()
  // `--namespace` comes first, because words after `--` are the command of an `exec`.
  const kubectl: ChaosPods['kubectl'] = (args, input) => cluster.kubectl(['--namespace', NAMESPACE, ...args], input)
  const list = (): Promise<SeenPod[]> => listPods(cluster, NAMESPACE)
  return {
    namespace: NAMESPACE,
    environment: {
      LONGHAUL_SANDBOXES: 'pods',
      LONGHAUL_GRADERS: 'pods',
      LONGHAUL_SANDBOX_CPUS: '8',
      LONGHAUL_KUBERNETES_NAMESPACE: NAMESPACE,
      KUBECONFIG: await cluster.configFile('worker'),
    },
    kubectl,
    names: async () => (await list()).map(({ metadata }) => metadata.name),
    async staying(episode) {
      const all = (await list()).filter(stays)
      const own = all.filter(
        ({ metadata }) => episode === undefined || metadata.annotations?.[LABELS.episode] === episode,
      )
      return own.map(({ metadata }) => metadata.name)
    },
    async apiServer() {
      const { stdout } = await promisify(execFile)('pgrep', ['--full', `/kube-apiserver .*${cluster.home}/`])
      const [pid = '', ...others] = stdout.trim().split('\n')
      if (others.length > 0) throw new Error(`Expected one API server of ${cluster.home}, got ${stdout}`)
      return identify(Number(pid))
    },
    isDeaf: () =>
      kubectl(['get', 'pods', '--request-timeout=2s']).then(
        () => false,
        () => true,
      ),
    async importTaskImages(engine) {
      const filters = JSON.stringify({ reference: ['longhaul/synthetic'] })
      const images = (await engine.docker.listImages({ filters })).flatMap(({ RepoTags }) => RepoTags ?? [])
      if (images.length === 0) throw new Error('The run in containers has left no image')
      for (const image of images.filter((one) => !imported.has(one))) {
        await importInto(cluster, { engine, image }, join(folder, 'image.tar'))
        imported.add(image)
      }
    },
    async readJournal(name) {
      const limit = `--request-timeout=${PATIENCE_MS / 1000}s`
      try {
        const pod = JSON.parse(await kubectl(['get', 'pod', name, '--output', 'json', limit])) as SeenPod
        const listing = await kubectl(['exec', name, limit, '--', 'ls', JOURNAL])
        return {
          episode: pod.metadata.annotations?.[LABELS.episode] ?? '',
          container: pod.metadata.uid,
          done: heldTurns(listing.split('\n')),
        }
      } catch {
        return null
      }
    },
    close,
  }
}
