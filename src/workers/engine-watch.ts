import { setTimeout as sleep } from 'node:timers/promises'
import type { FleetPlan } from '../adapters/engines/fleet-files.ts'
import type { Fleets } from '../adapters/engines/fleets.ts'
import { toLonghaulError } from '../contracts/errors.ts'
import { workflowIds } from '../contracts/workflow-ids.ts'
import type { OwnerState } from '../domain/orphaned-resources.ts'

/** Of a workflow, by its id; null where the server cannot be asked. */
export type StateOf = (workflowId: string) => Promise<OwnerState | null>

/** A keeper that was killed is missed for this long at most; its sessions move on meanwhile. */
const LONGEST_ROUND_MS = 10_000

interface EngineWatchInput {
  fleets: Fleets
  stateOf: StateOf
  leaseMs: number
  log: { info(message: string, facts: object): void; warn(message: string, facts: object): void }
}

/**
 * Gives signs of life to the engines of this host, starts their keeper where it died, and ends them when the workflow of their run has
 * closed: a run that was terminated ends nothing itself. A server that cannot be asked leaves them as they are. Several trainer workers of a
 * host agree.
 */
export function startEngineWatch({ fleets, stateOf, leaseMs, log }: EngineWatchInput): { stop(): Promise<void> } {
  const stopping = new AbortController()
  const { signal } = stopping
  const look = async (plan: FleetPlan): Promise<void> => {
    const { run } = plan
    try {
      const state = await stateOf(rootOf(plan))
      if (state?.kind === 'closed' || state?.kind === 'unknown') {
        log.info('the run is over: its engines end', { run })
        await fleets.end(run)
      } else {
        await fleets.renew(run)
      }
    } catch (error) {
      log.warn('the engines of a run could not be looked after', { run, error: toLonghaulError(error).message })
    }
  }
  const watch = async (): Promise<void> => {
    while (!signal.aborted) {
      await Promise.all((await fleets.list()).map(look))
      // Two signs of life may be lost before the third comes too late.
      await sleep(Math.min(LONGEST_ROUND_MS, leaseMs / 3), undefined, { signal }).catch(() => undefined)
    }
  }
  const done = watch()
  return {
    async stop() {
      stopping.abort()
      await done
    },
  }
}

/** A stage asks for engines too, and closes before its run. */
function rootOf({ owner, run }: FleetPlan): string {
  const roots = [workflowIds.train(run), workflowIds.evaluation(run)]
  return roots.find((root) => owner === root || owner.startsWith(`${root}/`)) ?? owner
}
