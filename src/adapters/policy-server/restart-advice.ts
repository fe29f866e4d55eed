import { LonghaulError } from '../../contracts/errors.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'

/** What an operator reads whose server serves something else, where servers are restarted and not reloaded. */
export function notRestarted({
  kind,
  policy,
  served,
}: {
  kind: 'vllm' | 'sglang'
  policy: PolicyRef
  served: string
}): LonghaulError {
  const flag = kind === 'vllm' ? '--served-model-name' : '--weight-version'
  return new LonghaulError({
    code: 'Model.NotServed',
    message:
      `Expected the ${kind} server to serve the policy. Restart it on the policy’s directory with ${flag} ${policy.version} ` +
      `and the other flags of its start command, or let it read new weights itself (policyServer.publish: reload)`,
    details: { served, directory: policy.uri },
  })
}
