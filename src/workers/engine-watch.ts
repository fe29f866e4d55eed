import { setTimeout as sleep } from 'node:timers/promises'
import type { FleetPlan } from '../adapters/engines/fleet-files.ts'
import type { Fleets } from '../adapters/engines/fleets.ts'
import { toLonghaulError } from '../contracts/errors.ts'
import { workflowIds } from '../contracts/workflow-ids.ts'
import type { OwnerState } from '../domain/orphaned-resources.ts'

/** Looks up a workflow by id; null if the server cannot be asked. */
export type StateOf = (workflowId: string) => Promise<OwnerState | null>

/** Maximum time until a killed keeper is noticed. Its sessions move to other servers meanwhile. */
const LONGEST_ROUND_MS = 10_000

interface EngineWatchInput {
  fleets: Fleets
  stateOf: StateOf
  leaseMs: number
  log: { info(message: string, facts: object): void; warn(message: string, facts: object): void }
}

/**
 * Renews the leases of this host's engines, restarts a keeper that died, and ends engines after their run's workflow has closed,
 * because a terminated run ends nothing itself. If the server cannot be asked, nothing changes. Several trainer workers of a host may
 * do this concurrently.
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
      log.warn('the engines of a run could not be checked', { run, error: toLonghaulError(error).message })
    }
  }
  const watch = async (): Promise<void> => {
    while (!signal.aborted) {
      await Promise.all((await fleets.list()).map(look))
      // Two renewals may be lost before the third comes too late.
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

/** Returns the root workflow's id, because a stage requests engines too and closes before its run. */
function rootOf({ owner, run }: FleetPlan): string {
  const roots = [workflowIds.train(run), workflowIds.evaluation(run)]
  return roots.find((root) => owner === root || owner.startsWith(`${root}/`)) ?? owner
}
