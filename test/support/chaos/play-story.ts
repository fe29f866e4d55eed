/** One run of `npm test` with its faults: each must strike, and no record may differ from the run without faults. */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { type Cell, needsParts, type SeedPlan } from './cells.ts'
import type { ChaosStack } from './chaos-stack.ts'
import { faultNamed } from './faults.ts'
import type { Phase } from './phases.ts'
import { playSeed, type QuietRuns } from './play-seed.ts'

/** All stories share one variation, so the run without faults is played once. */
export const SEED = 8

/** A cell that strikes the phase's first visit. */
export function cell(fault: string, phase: Phase): Cell {
  return { fault: faultNamed(fault), phase, nth: 0 }
}

export async function playStory(
  t: TestContext,
  { stack, quiet, cells }: { stack: ChaosStack; quiet: QuietRuns; cells: readonly Cell[] },
): Promise<void> {
  const inParts = cells.some(({ fault, phase }) => needsParts([fault, phase]))
  const plan: SeedPlan = { seed: SEED, kind: 'evaluation', inParts, cells: [...cells] }
  const { violations, ...facts } = await playSeed({ stack, plan, quiet, say: console.error })
  t.diagnostic(JSON.stringify(facts))
  assert.deepEqual(violations, [])
  assert.deepEqual(
    facts.cells.map(({ struck }) => struck),
    cells.map(() => true),
  )
}
