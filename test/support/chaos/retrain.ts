/** Trains a recorded batch again, outside of the run: its job must have reached this result in spite of all faults. */
import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import type { ChaosStack } from './chaos-stack.ts'
import { hashWeights, type JobDigest, projectStep } from './run-digest.ts'

interface RecordedSpec {
  output: Record<string, string>
  work: Record<string, string>
  [part: string]: unknown
}

export async function retrain({
  stack,
  run,
  job,
}: {
  stack: ChaosStack
  run: string
  /** Id of the recorded job. */
  job: string
}): Promise<Pick<JobDigest, 'steps' | 'weights'>> {
  const folder = join(stack.scratchDir, 'retrained')
  const [policy, checkpoint] = [join(folder, 'policy'), join(folder, 'checkpoint')]
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder)
  const recorded = await readSpec(stack.store.path(`runs/${run}/${job.replace('/batch-', '/job-')}`))
  const spec = {
    ...recorded,
    output: {
      ...recorded.output,
      checkpoint_uri: pathToFileURL(checkpoint).href,
      policy_uri: pathToFileURL(policy).href,
    },
    work: { job_dir: folder, scratch_dir: join(folder, 'scratch') },
    attempt: 1,
    fence: 1,
  }
  const file = join(folder, 'spec.1.json')
  await writeFile(file, JSON.stringify(spec))
  await promisify(execFile)(stack.python, ['-m', 'longhaul_trainer', 'step', '--spec', file], {
    env: { ...process.env, PYTHONPATH: stack.trainerPath, OMP_WAIT_POLICY: 'PASSIVE' },
  })
  const metrics = (await readFile(join(checkpoint, 'metrics.jsonl'), 'utf8')).split('\n').filter((line) => line !== '')
  const steps = metrics.map((line) => projectStep(JSON.parse(line) as Record<string, unknown>))
  return { steps, weights: await hashWeights({ policy, checkpoint }) }
}

/** The spec of the last attempt: specs differ only in attempt and fence. */
async function readSpec(directory: string): Promise<RecordedSpec> {
  const names = (await readdir(directory)).filter((name) => /^spec\.\d+\.json$/.test(name)).sort()
  return JSON.parse(await readFile(join(directory, names.at(-1) ?? 'spec.1.json'), 'utf8')) as RecordedSpec
}
