import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import type { PolicyClient } from '../contracts/policy.types.ts'
import type { SandboxHost } from '../contracts/sandbox.types.ts'

/** What stands between a worker's activities and the outside world. The product lets everything through. */
export interface Interposers {
  store(store: ArtifactStore): ArtifactStore
  sandbox(host: SandboxHost): SandboxHost
  policy(client: PolicyClient): PolicyClient
}

export const PASS_THROUGH: Interposers = {
  store: (store) => store,
  sandbox: (host) => host,
  policy: (client) => client,
}
