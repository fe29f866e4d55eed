import { writeBatch } from '../../../src/adapters/trainer-job/batch/batch-writer.ts'
import { readPolicyFacts } from '../../../src/adapters/trainer-job/job/policy-facts.ts'
import { assembleTrajectory } from '../../../src/adapters/trainer-job/batch/trajectory.ts'
import type { ArtifactRef, ArtifactStore } from '../../../src/contracts/artifacts.types.ts'
import { runKeys } from '../../../src/contracts/keys.ts'
import type { PolicyRef } from '../../../src/contracts/policy.types.ts'
import { NEUTRAL_SAMPLING } from '../../../src/contracts/neutral-sampling.ts'
import { splitIntoMinibatches } from '../../../src/domain/rewards/minibatches.ts'
import { makeEpisode } from '../training-records.ts'

/** A batch of one trajectory, as in rejection fine-tuning: enough to start a job. */
export async function writeSmallBatch({
  store,
  run,
  policy,
}: {
  store: ArtifactStore
  run: string
  policy: PolicyRef
}): Promise<ArtifactRef> {
  const { record, actions } = makeEpisode({ run, stage: 'rft', iteration: 0, index: 0, policy: policy.version })
  const trajectory = assembleTrajectory({ record, actions, trainFormatErrors: true })
  return writeBatch({
    store,
    directory: runKeys.batch(run, 'rft', 0, 0),
    kind: 'rft',
    run,
    iteration: 0,
    rows: [{ trajectory, group: 't', member: 0, advantage: null }],
    minibatches: splitIntoMinibatches({ trajectories: 1, batch: 1 }),
    groups: [{ id: 't', taskId: 't', rewards: [1], outcomes: [1], infra: 0, dropped: null }],
    policies: [{ version: policy.version, manifestSha256: policy.manifestSha256 }],
    ...(await readPolicyFacts(policy)),
    maxRowTokens: 256,
    sampling: NEUTRAL_SAMPLING,
    totalSteps: 1,
    advantage: null,
  })
}
