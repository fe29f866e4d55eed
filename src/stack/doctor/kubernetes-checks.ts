import { requirePods } from '../../adapters/kubernetes/list-pods.ts'
import { toLonghaulError } from '../../contracts/errors.ts'
import { type CheckDefinition, fail, type Finding, ok } from './finding.ts'

export const KUBERNETES_CHECKS: readonly CheckDefinition[] = [
  {
    group: 'kubernetes',
    name: 'pods',
    why: 'each sandbox is a pod',
    roles: ['sandbox'],
    only: 'role',
    isNeeded: () => process.env['LONGHAUL_SANDBOXES'] === 'pods',
    run: checkCluster,
  },
]

async function checkCluster(): Promise<Finding> {
  const fix = 'KUBECONFIG and LONGHAUL_KUBERNETES_NAMESPACE; rights: infra/kubernetes/sandboxes.json (docs/cluster.md)'
  try {
    // Its packages take a quarter of a second to load.
    const { connectCluster } = await import('../../adapters/kubernetes/cluster.ts')
    const cluster = await connectCluster({ namespace: process.env['LONGHAUL_KUBERNETES_NAMESPACE'] || null })
    try {
      const pods = await requirePods(cluster)
      return ok(`${cluster.server}, namespace ${cluster.namespace}, ${pods.length} sandboxes and graders`)
    } finally {
      cluster.dispose()
    }
  } catch (error) {
    return fail(toLonghaulError(error).message, fix)
  }
}
