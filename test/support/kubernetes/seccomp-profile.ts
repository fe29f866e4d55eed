import { AGENT_CAPABILITIES } from '../../../src/adapters/docker/container/container-spec.ts'
import { readSeccompProfile, type SeccompRule } from '../../../src/adapters/docker/engine/engine.ts'

/** Task images are published only for this architecture. */
const ARCH = 'amd64'
const ARCHITECTURES = ['SCMP_ARCH_X86_64', 'SCMP_ARCH_X86', 'SCMP_ARCH_X32']
const CLONE_NEWUSER = 0x1000_0000
const CLONE_NEWNET = 0x4000_0000

/**
 * Permits one user namespace with its own network, and entering both; the runner forbids these calls to everything that it starts.
 */
const RUNNER_CALLS: SeccompRule[] = [
  { names: ['unshare'], action: 'SCMP_ACT_ALLOW', args: [equals(0, CLONE_NEWUSER + CLONE_NEWNET)] },
  { names: ['setns'], action: 'SCMP_ACT_ALLOW', args: [equals(1, CLONE_NEWUSER)] },
  { names: ['setns'], action: 'SCMP_ACT_ALLOW', args: [equals(1, CLONE_NEWNET)] },
]

function equals(index: number, value: number): object {
  return { index, value, op: 'SCMP_CMP_EQ' }
}

/**
 * The profile of sandboxes in pods, in the kubelets' form. It has no conditional rules for containers or machines, so Docker's are
 * resolved here for the permissions of a sandbox on a current kernel.
 */
export async function runnerSeccompProfile(): Promise<object> {
  const { defaultAction, defaultErrnoRet, syscalls } = await readSeccompProfile()
  const rules = [...syscalls, ...RUNNER_CALLS].filter(isForSandboxes)
  return {
    defaultAction,
    defaultErrnoRet,
    architectures: ARCHITECTURES,
    syscalls: rules.map(({ names, action, args, errnoRet }) => ({
      names,
      action,
      ...(args === undefined ? {} : { args }),
      ...(errnoRet === undefined ? {} : { errnoRet }),
    })),
  }
}

function isForSandboxes({ includes = {}, excludes = {} }: SeccompRule): boolean {
  const holds = (name: string): boolean => AGENT_CAPABILITIES.some((capability) => name === `CAP_${capability}`)
  if (includes.arches?.includes(ARCH) === false || includes.caps?.every(holds) === false) return false
  return !(excludes.arches?.includes(ARCH) ?? false) && !(excludes.caps?.some(holds) ?? false)
}
