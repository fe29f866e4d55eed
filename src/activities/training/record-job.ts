import { readAttemptTimes } from '../../adapters/trainer-job/job/attempt-times.ts'
import type { PreparedJob } from '../../adapters/trainer-job/job/job-spec.ts'
import type { TrainingJobInput } from '../../contracts/activities.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { JobTimeRecord, LineageRecord } from '../../contracts/costs.types.ts'
import { policyKeys, runKeys } from '../../contracts/keys.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'

interface EndedJob {
  store: ArtifactStore
  input: TrainingJobInput
  job: Pick<PreparedJob, 'key' | 'jobDirectory' | 'layout'>
  trained: PolicyRef
}

/**
 * Keeps how long a job's attempts took, and what its policy was made from. The first record of each stays: a repeated attempt of the
 * activity adds no second. Another host's job leaves no times here, and then no record says that there were none.
 */
export async function recordJob({ store, input, job, trained }: EndedJob): Promise<void> {
  const { run, stage, iteration, slice, policy: parent, batch } = input
  const attempts = await readAttemptTimes(job.jobDirectory)
  if (attempts.length > 0) {
    const { device, nodes, ranksPerNode } = job.layout
    await store.claimRecord<JobTimeRecord>(runKeys.jobTime(run, stage, iteration, slice), {
      schema: 'longhaul.job-time/1',
      stage,
      iteration,
      slice,
      device,
      ranks: nodes * ranksPerNode,
      attempts,
    })
  }
  await store.claimRecord<LineageRecord>(policyKeys.lineage(trained.version), {
    schema: 'longhaul.lineage/1',
    policy: hashOf(trained),
    parent: hashOf(parent),
    by: { run, stage, iteration, slice },
    jobKey: job.key,
    batchSha256: batch.sha256,
  })
}

function hashOf({ version, manifestSha256 }: PolicyRef): LineageRecord['policy'] {
  return { version, manifestSha256 }
}
