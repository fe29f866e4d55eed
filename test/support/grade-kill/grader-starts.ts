import type { Engine } from '../../../src/adapters/docker/engine/engine.ts'
import { LABELS } from '../../../src/adapters/docker/container/labels.ts'

/** One start of a container that grades for a run. */
export interface GraderStart {
  /** Purpose of the container: `<run>/grading/<task>`. */
  episode: string
  atMs: number
}

export interface GraderWatch {
  /** Ends the watch. @throws if the engine ended it before, because starts may be missing then */
  stop(): GraderStart[]
}

interface EngineEvent {
  timeNano: number
  Actor: { Attributes: Record<string, string> }
}

/**
 * Watches all gradings of a run from now on through the engine's own events, so that nothing of Longhaul has to be trusted. Events
 * are streamed and not queried later, because an engine keeps only its last few hundred.
 */
export async function watchGraders({ docker }: Engine, run: string): Promise<GraderWatch> {
  const stream = await docker.getEvents({
    filters: { type: ['container'], event: ['start'], label: [`${LABELS.run}=${run}`] },
  })
  const starts: GraderStart[] = []
  let open = ''
  stream.on('data', (chunk: Buffer | string) => {
    const lines = `${open}${chunk.toString()}`.split('\n')
    open = lines.pop() ?? ''
    for (const line of lines) {
      if (line.trim() === '') continue
      const { timeNano, Actor } = JSON.parse(line) as EngineEvent
      // The audit that follows a resolved verdict grades nothing.
      if (Actor.Attributes['name']?.startsWith('lh-audit-') === true) continue
      starts.push({ episode: Actor.Attributes[LABELS.episode] ?? '', atMs: timeNano / 1e6 })
    }
  })
  let isHeard = true
  // `error` is followed by `close`.
  stream.on('error', () => undefined)
  stream.on('close', () => {
    isHeard = false
  })
  return {
    stop() {
      if (!isHeard) throw new Error(`the engine ended its stream of events after ${starts.length} starts`)
      ;(stream as NodeJS.ReadableStream & { destroy(): void }).destroy()
      return starts
    },
  }
}
