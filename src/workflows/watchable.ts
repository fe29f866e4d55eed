import { setHandler, workflowInfo } from '@temporalio/workflow'
import type { RunProgress } from '../contracts/workflows.types.ts'
import { blockersQuery, progressQuery } from './run-control.ts'

export interface RootProgress {
  enter(phase: string, run?: string): void
}

/** Answers the queries `progress` and `blockers` of a root that cannot be steered, in the shape that a training run answers them. */
export function watchable(run: string | null): RootProgress {
  const state: RunProgress = {
    run,
    phase: 'resolving the recipe',
    paused: false,
    stopAfterIteration: null,
    scores: [],
    waitingFor: null,
  }
  setHandler(progressQuery, () => state)
  setHandler(blockersQuery, () => {
    const { waitingFor } = state
    if (waitingFor === null || state.phase === 'done') return { run: state.run, waits: [] }
    const on = { kind: 'workflow', name: workflowInfo().workflowId } as const
    return { run: state.run, waits: [{ on, doing: waitingFor.what, since: waitingFor.since, toDo: null }] }
  })
  return {
    enter: (phase, name) => {
      state.phase = phase
      state.run = name ?? state.run
      state.waitingFor = { what: phase, since: new Date().toISOString() }
    },
  }
}
