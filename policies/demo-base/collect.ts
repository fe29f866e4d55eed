import { createWriteStream } from 'node:fs'
import { once } from 'node:events'
import { synthesizeTask } from '../../src/adapters/datasets/synthetic/synthesize.ts'
import { randomFrom } from '../../src/adapters/datasets/synthetic/compose.ts'
import type { SandboxHandle, ScaffoldProfile } from '../../src/contracts/sandbox.types.ts'
import { demonstrate, type Demonstration } from './demonstration.ts'
import type { Lanes } from './lanes.ts'
import { noiseOf } from './noise.ts'

export interface CollectInput {
  lanes: Lanes
  count: number
  /** Plays the script on a task of the collection, counted from 0. */
  play(sandbox: SandboxHandle, position: number): Promise<Demonstration>
  /** JSON Lines, one demonstration each, in order of the tasks. */
  path: string
  log(line: string): void
}

export interface CollectResult {
  count: number
  solved: number
  meanTurns: number
  seconds: number
}

const LOG_EVERY = 500

/** Plays the scripted solver on `count` tasks, side by side on every lane; the file does not depend on which lane was faster. */
export async function collect(input: CollectInput): Promise<CollectResult> {
  const startedMs = performance.now()
  const results: (Demonstration | undefined)[] = []
  const file = createWriteStream(input.path)
  let nextTask = 0
  let written = 0
  const totals = { solved: 0, turns: 0 }

  const writeReady = (): void => {
    for (let ready = results[written]; ready !== undefined; ready = results[written]) {
      file.write(`${JSON.stringify(ready)}\n`)
      results[written] = undefined
      totals.solved += ready.solved ? 1 : 0
      totals.turns += ready.turns
      written += 1
      if (written % LOG_EVERY === 0) input.log(`${written} of ${input.count} demonstrations, ${seconds(startedMs)} s`)
    }
  }
  const work = async (sandbox: SandboxHandle): Promise<void> => {
    while (nextTask < input.count) {
      const position = nextTask
      nextTask += 1
      results[position] = await input.play(sandbox, position)
      writeReady()
    }
  }
  await Promise.all(input.lanes.sandboxes.map(work))
  file.end()
  await once(file, 'close')
  return {
    count: input.count,
    solved: totals.solved,
    meanTurns: totals.turns / input.count,
    seconds: seconds(startedMs),
  }
}

export interface NoisyCollection {
  lanes: Lanes
  profile: ScaffoldProfile
  /** Of the synthetic family; a seed that no recipe uses, so that the base has seen no task of any run. */
  seed: number
  offset: number
  noiseStrength: number
  signal: AbortSignal
}

/** The demo's solver on a task of the first family. */
export function noisyPlayer({
  lanes,
  profile,
  seed,
  offset,
  noiseStrength,
  signal,
}: NoisyCollection): CollectInput['play'] {
  return async (sandbox, position) => {
    const index = offset + position
    const task = synthesizeTask({ family: 'one-wrong-line', seed, split: 'train', index })
    const loaded = await lanes.load(sandbox, await task.repoTar(), signal)
    const random = randomFrom(`demonstration/${seed}/${index}/${noiseStrength}`)
    const noise = noiseOf(noiseStrength)
    return demonstrate({ host: lanes.host, sandbox: loaded, profile, task, noise, random, signal })
  }
}

function seconds(sinceMs: number): number {
  return Math.round((performance.now() - sinceMs) / 1000)
}
