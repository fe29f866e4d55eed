import { LonghaulError } from '../../../contracts/errors.ts'
import type { KubernetesLauncherRecipe } from '../../../contracts/recipe.types.ts'
import { jobNetworkPolicy, kubernetesManifest, kubernetesName, networkPolicyName } from './kubernetes-manifests.ts'
import type { Attempt, AttemptState, Launcher } from './launcher.types.ts'
import { askTool, runTool, TOOL_DEADLINE_MS } from '../job/run-tool.ts'

export interface KubernetesLauncherInput {
  options: KubernetesLauncherRecipe
}

/** What is read of a Job's or JobSet's status. */
interface Found {
  metadata?: { labels?: Record<string, string>; deletionTimestamp?: string }
  status?: { conditions?: { type?: string; status?: string; reason?: string; message?: string }[] }
}

/** Of a Job and of a JobSet: both say so in a condition. */
const ENDED = new Set(['Complete', 'Completed', 'Failed'])

/** A Job, or a JobSet for several nodes, through `kubectl` with the worker's own credentials. */
export function createKubernetesLauncher({ options }: KubernetesLauncherInput): Launcher {
  return {
    isElsewhere: true,
    pollMs: 10_000,
    settleMs: 15_000,
    // Four commands: look, removal of a dead attempt, creation of policy and Job.
    launchMs: 4 * TOOL_DEADLINE_MS + 15_000,
    async launch(attempt) {
      const found = await find(options, attempt)
      if (found !== null) {
        if (fenceOf(found) > attempt.fence || endOf(found) === null) {
          throw new LonghaulError({
            code: 'Trainer.Unavailable',
            message: `Expected no other attempt under the name ${kubernetesName(attempt)}, attempt ${fenceOf(found)} has it`,
            details: { fence: attempt.fence, refused: true },
          })
        }
        // The dead attempt holds the name: it goes with its pods first.
        await remove(options, attempt, 0)
      }
      await closeNetwork(options, attempt)
      await askTool('kubectl', ['create', '-f', '-'], JSON.stringify(kubernetesManifest({ options, attempt })))
    },
    async look(attempt) {
      const found = await find(options, attempt)
      return found === null ? { kind: 'absent', how: 'unknown to Kubernetes' } : stateOf(found, attempt)
    },
    async stop(attempt, graceMs) {
      await remove(options, attempt, graceMs)
      if ((await find(options, attempt)) !== null) return false
      await openNetwork(options, attempt)
      return true
    },
  }
}

/** The object of a lower fence is an earlier attempt's, which holds the name; that of a higher one has replaced this one. */
function stateOf(found: Found, { fence }: Attempt): AttemptState {
  if (fenceOf(found) > fence) return { kind: 'over', code: null, how: 'replaced in Kubernetes' }
  if (fenceOf(found) < fence) return { kind: 'absent', how: 'unknown to Kubernetes' }
  const end = endOf(found)
  // The pod's code is not asked for: exit.json outranks it, and torchrun makes every failure a 1.
  return end === null
    ? { kind: 'alive' }
    : { kind: 'over', code: null, how: `${end.type} for Kubernetes (${end.reason ?? ''} ${end.message ?? ''})` }
}

function fenceOf(found: Found): number {
  return Number(found.metadata?.labels?.['longhaul/fence'])
}

function endOf(found: Found) {
  return found.status?.conditions?.find(({ type, status }) => ENDED.has(type ?? '') && status === 'True') ?? null
}

async function find(options: KubernetesLauncherRecipe, attempt: Attempt): Promise<Found | null> {
  const { code, stdout, stderr } = await runTool('kubectl', [
    'get',
    resourceOf(attempt),
    '--namespace',
    options.namespace,
    '--output',
    'json',
  ])
  if (code === 0) return JSON.parse(stdout) as Found
  if (/\(NotFound\)/.test(stderr)) return null
  throw new LonghaulError({ code: 'Trainer.Unavailable', message: `Expected an answer from kubectl: ${stderr.trim()}` })
}

/** Before any pod runs. All attempts of a job ask for the same one, so that one that is there already is right. */
async function closeNetwork(options: KubernetesLauncherRecipe, attempt: Attempt): Promise<void> {
  const manifest = JSON.stringify(jobNetworkPolicy({ options, attempt }))
  const { code, stderr } = await runTool('kubectl', ['create', '-f', '-'], manifest)
  if (code === 0 || /\(AlreadyExists\)/.test(stderr)) return
  throw new LonghaulError({
    code: 'Trainer.Unavailable',
    message: `Expected to close the network of a training job by a NetworkPolicy: ${stderr.trim()}`,
    details: { refused: true },
  })
}

/** After the last pod; the policy of a job that ended by itself stays beside its Job, and goes with it by the label longhaul/job. */
async function openNetwork(options: KubernetesLauncherRecipe, attempt: Attempt): Promise<void> {
  const policy = `networkpolicy.networking.k8s.io/${networkPolicyName(attempt)}`
  await runTool('kubectl', ['delete', policy, '--namespace', options.namespace, '--ignore-not-found', '--wait=false'])
}

/** In the foreground: the object is there until its pods are gone. */
async function remove(options: KubernetesLauncherRecipe, attempt: Attempt, graceMs: number): Promise<void> {
  const graceS = Math.ceil(graceMs / 1000)
  await runTool('kubectl', [
    'delete',
    resourceOf(attempt),
    '--namespace',
    options.namespace,
    '--cascade=foreground',
    '--ignore-not-found',
    '--wait=true',
    `--timeout=${graceS + 20}s`,
  ])
}

function resourceOf(attempt: Attempt): string {
  return `${attempt.job.layout.nodes === 1 ? 'job.batch' : 'jobset.jobset.x-k8s.io'}/${kubernetesName(attempt)}`
}
