import { readOrThrow } from '../../../src/activities/runtime/stored-records.ts'
import { sandboxLimits } from '../../../src/activities/episode/open-sandbox.ts'
import { createDockerSandboxHost } from '../../../src/adapters/docker/sandbox/sandbox-host.ts'
import type { EpisodeRecord, EpisodeSpec } from '../../../src/contracts/episodes.types.ts'
import { episodeKeys, suiteKeys } from '../../../src/contracts/keys.ts'
import type { TurnMark } from '../../../src/contracts/sandbox.types.ts'
import type { Recipe } from '../../../src/contracts/recipe.types.ts'
import type { Task } from '../../../src/contracts/tasks.types.ts'
import { scaffoldProfile } from '../../../src/scaffold/profiles.ts'
import type { PipelineWorld } from '../pipeline-world.ts'
import { type RecordedTurn, turnsOf } from '../run-records.ts'

/**
 * Plays the recorded commands of episodes once each in fresh sandboxes. If a command originally ran twice or never, an exit code, the
 * tools' state or the patch differs. @returns the differences, one line each
 */
export async function replayEpisodes(
  { engine, store }: PipelineWorld,
  recipe: Recipe,
  episodes: readonly EpisodeRecord[],
): Promise<string[]> {
  const host = createDockerSandboxHost({ engine, hostId: 'replay', hostQueue: 'replay' })
  const differences: string[] = []
  try {
    for (const { episode, taskId, patchBytes, disposition } of episodes) {
      const spec = await readOrThrow<EpisodeSpec>(store, episodeKeys.spec(episode))
      const task = await readOrThrow<Task>(store, suiteKeys.task(spec.suiteHash, taskId))
      // Only the replay's name differs from the original.
      const input = { ...identityOf(episode), image: task.image, repoDir: task.repoDir }
      const patch = await replayOne(host, recipe, spec, input, await turnsOf(store, episode), (difference) =>
        differences.push(`${episode} ${difference}`),
      )
      if (disposition !== 'submitted') continue
      const original = (await store.read(episodeKeys.patch(episode))) ?? new Uint8Array()
      const isSame = Buffer.compare(original, patch) === 0 && original.byteLength === patchBytes
      if (!isSame) differences.push(`${episode} has a patch of ${patchBytes} bytes, its commands give ${patch.length}`)
    }
  } finally {
    host.dispose()
  }
  return differences
}

const never = new AbortController().signal

async function replayOne(
  host: ReturnType<typeof createDockerSandboxHost>,
  recipe: Recipe,
  spec: EpisodeSpec,
  input: { run: string; episode: string; image: string; repoDir: string },
  turns: readonly RecordedTurn[],
  report: (difference: string) => void,
): Promise<Uint8Array> {
  const sandbox = await host.open(
    {
      ...input,
      role: 'agent',
      placement: 1,
      tools: scaffoldProfile(spec.scaffold).tools,
      limits: sandboxLimits(recipe),
      owner: 'replay',
      leaseMs: 120_000,
    },
    never,
  )
  try {
    let after: TurnMark | null = null
    for (const { action, observation } of turns) {
      if (action.command === null || observation === null) continue
      const { turn, token, command } = action
      const request = { turn, fence: 1, token, command, timeoutMs: spec.limits.commandTimeoutMs, maxOutputBytes: 4_000 }
      const { exitCode, state } = await host.runTurn(sandbox, { ...request, after }, never)
      after = { turn, token }
      const [was, is] = [summary(observation.execution?.exitCode, observation.state), summary(exitCode, state)]
      if (was !== is) report(`turn ${turn} ended as ${was}, played once it ends as ${is}`)
    }
    return (await host.capture(sandbox, { mode: recipe.scaffold.submit.capture, after }, never)).patch
  } finally {
    await host.close(sandbox)
  }
}

function identityOf(episode: string): { run: string; episode: string } {
  const [run = '', ...rest] = episode.split('/')
  return { run, episode: [run, 'replay', ...rest].join('/') }
}

function summary(
  exitCode: number | null | undefined,
  {
    cwd,
    openFile,
    windowTop,
    submitted,
  }: { cwd: string; openFile: string | null; windowTop: number; submitted: boolean },
): string {
  return `exit ${exitCode ?? null} in ${cwd}, ${openFile ?? 'no file'} at ${windowTop}${submitted ? ', submitted' : ''}`
}
