/** Runs that are ended at random moments, as by an operator: not at a phase, and without waiting for the end. */
import { setTimeout as sleep } from 'node:timers/promises'
import { randomFrom } from '../../../src/adapters/datasets/synthetic/compose.ts'
import type { SeedPlan } from './cells.ts'
import { type Fault, faultNamed } from './faults.ts'
import type { Visit } from './phases.ts'

/** About the duration of a turn. */
const WITHIN_MS = 1_500

/**
 * The story: an operator terminates all workflows of a training while episodes of its base evaluation have recorded turns but have
 * not ended, and starts it again.
 */
export function planReproduction(seed: number, faults: readonly Fault[] = [faultNamed('terminate-all')]): SeedPlan {
  const random = randomFrom(`chaos/reproduction/${seed}`)
  const fault = random.pick(faults)
  const cell = { fault: atRandomMoment(fault), phase: 'observed', nth: random.unit() } as const
  return { seed, kind: 'training', inParts: false, cells: [cell] }
}

/** Strikes some time after a turn of the base evaluation was recorded, while everything continues. */
function atRandomMoment(fault: Fault): Fault {
  return {
    ...fault,
    phases: ['observed'],
    matches: ({ episode }: Visit) => episode?.includes('/eval-base/') === true,
    async strike(input) {
      const struck = sleep(input.random.unit() * WITHIN_MS).then(() => fault.strike(input))
      return { over: struck.then(({ over }) => over), seen: async () => (await struck).seen() }
    },
  }
}
