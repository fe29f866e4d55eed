import type { Engine } from '../../../src/adapters/docker/engine.ts'
import { LABELS } from '../../../src/adapters/docker/labels.ts'

/** One start of a container that grades for a run. */
export interface GraderStart {
  /** What the container was for: `<run>/grading/<task>`. */
  episode: string
  atMs: number
}

interface EngineEvent {
  timeNano: number
  Actor: { Attributes: Record<string, string> }
}

/** Everything that graded for a run since, as the engine itself remembers it: nothing of ours has to be believed. */
export async function graderStarts(
  { docker }: Engine,
  { run, sinceMs }: { run: string; sinceMs: number },
): Promise<GraderStart[]> {
  const label = [`${LABELS.run}=${run}`]
  const until = Math.ceil(Date.now() / 1000) + 1
  const stream: AsyncIterable<Uint8Array | string> = await docker.getEvents({
    since: Math.floor(sinceMs / 1000),
    until,
    filters: { type: ['container'], event: ['start'], label },
  })
  let text = ''
  for await (const chunk of stream) text += chunk.toString()
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => JSON.parse(line) as EngineEvent)
    .map(({ timeNano, Actor }) => ({
      episode: Actor.Attributes[LABELS.episode] ?? '',
      atMs: timeNano / 1e6,
    }))
}
