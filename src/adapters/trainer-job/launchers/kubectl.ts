/** Questions to a cluster through `kubectl`, with the worker's own credentials, and what to do about its refusals. */
import { LonghaulError } from '../../../contracts/errors.ts'
import { isUncertain, runTool, type ToolResult } from '../job/run-tool.ts'

export interface KubectlInput {
  /** In errors: `create Job x in namespace y`. */
  purpose: string
  args: string[]
  input?: string
}

/** Runs it to its end; a code other than 0 is for the caller to judge. @throws LonghaulError `Trainer.Unavailable` when it cannot be run */
export function runKubectl({ args, input }: Omit<KubectlInput, 'purpose'>): Promise<ToolResult> {
  return runTool('kubectl', args, input)
}

/** @throws LonghaulError `Trainer.Unavailable` for any code but 0, with `refused` where the cluster surely did nothing */
export async function askKubectl(input: KubectlInput): Promise<string> {
  const { code, stdout, stderr } = await runKubectl(input)
  if (code === 0) return stdout
  throw kubectlRefusal(input.purpose, stderr)
}

export function kubectlRefusal(purpose: string, stderr: string): LonghaulError {
  const said = stderr.trim().slice(-800)
  const remedy = REMEDIES.find(([pattern]) => pattern.test(said))?.[1]
  return new LonghaulError({
    code: 'Trainer.Unavailable',
    message: `Expected to ${purpose}: ${said}${remedy === undefined ? '' : ` → ${remedy}`}`,
    details: { tool: 'kubectl', refused: !isUncertain(said) },
  })
}

export function isNotFound(stderr: string): boolean {
  return /\(NotFound\)/.test(stderr)
}

/** What a refusal says, and what its reader can do about it. The first that fits counts. */
const REMEDIES: readonly (readonly [RegExp, string])[] = [
  [/namespaces "[^"]*" not found/, 'create the namespace, or correct trainer.kubernetes.namespace'],
  [/exceeded quota/, 'raise the quota of the namespace, or ask for less in trainer.kubernetes'],
  [
    /resource type "jobset|no matches for kind "JobSet"/,
    'install JobSet on the cluster, or train on one node (trainer.nodes: 1)',
  ],
  [
    /\(Forbidden\)/,
    'give the account of the trainer worker the rights that docs/training-jobs.md lists, in this namespace',
  ],
  [
    /\(Unauthorized\)|must be logged in|asked for the client to provide credentials/,
    'the credentials of the trainer worker are wrong or have expired: renew the kubeconfig that KUBECONFIG names',
  ],
  [
    /x509|certificate|tls:/,
    'the cluster and the kubeconfig that KUBECONFIG names do not trust each other: a certificate is of another authority or has expired',
  ],
  [
    /localhost:8080|no configuration has been provided|current-context/,
    'set KUBECONFIG of the trainer worker to a file that names the cluster',
  ],
]
