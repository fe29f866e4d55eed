/** A thousand simulated evaluations: apart from the unit tests, because it costs a hundred times as much as all of them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type PairedOutcomes, seededRandom } from './bootstrap.ts'
import { differenceInterval } from './score-interval.ts'

const repeat = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index))

/** 12 repositories of 5 tasks; a task's rate is its repository's, moved a little; `after` is better by `gain`. */
function drawPairs(random: () => number, { attempts, gain }: { attempts: number; gain: number }): PairedOutcomes[] {
  return repeat(12, () => 0.15 + 0.5 * random()).flatMap((rate, repository) =>
    repeat(5, (index) => {
      const own = rate + 0.2 * (random() - 0.5)
      const play = (chance: number): (0 | 1)[] => repeat(attempts, () => (random() < chance ? 1 : 0))
      return {
        taskId: `t${repository * 5 + index}`,
        cluster: `r${repository}`,
        before: play(own),
        after: play(own + gain),
      }
    }),
  )
}

for (const attempts of [1, 4]) {
  test(`the 95 % interval contains a known difference in at least 95 % of 1,000 seeds (k = ${attempts})`, () => {
    const gain = 0.1
    let held = 0
    let width = 0
    for (let seed = 1; seed <= 1000; seed++) {
      const tasks = drawPairs(seededRandom(seed), { attempts, gain })
      const interval = differenceInterval({ tasks, seed, draws: 200 })
      if (interval !== null && interval.low <= gain && gain <= interval.high) held += 1
      width += interval === null ? 1 : interval.high - interval.low
    }
    // Two binomial standard errors of 1,000 seeds are 0.014; the upper bound shows that it is not simply enormous.
    assert.ok(held / 1000 >= 0.95 - 0.014, `held in ${held} of 1000`)
    assert.ok(width / 1000 < (attempts === 1 ? 0.46 : 0.24), `mean width ${width / 1000}`)
  })
}
