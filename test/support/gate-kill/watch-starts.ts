import type { Engine } from '../../../src/adapters/docker/engine/engine.ts'
import { type GraderStart, watchGraders } from '../grade-kill/grader-starts.ts'

/** Collects the starts of a run's grading containers from now until `stop`. */
export function watchStarts(engine: Engine, run: string): { stop(): Promise<GraderStart[]> } {
  const watching = watchGraders(engine, run)
  // Its error is reported by `stop`.
  watching.catch(() => undefined)
  return {
    async stop() {
      return (await watching).stop()
    },
  }
}
