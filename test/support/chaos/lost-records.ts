/** Faults of storage: records disappear, and the server's database becomes an older copy of itself. */
import { rm } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ChaosStack } from './chaos-stack.ts'
import type { Fault, StrikeInput } from './faults.ts'
import type { Phase } from './phases.ts'
import { onceClosed } from './restart-faults.ts'

const AMID = ['placing', 'executing', 'grading'] as const satisfies readonly Phase[]
/** Visits between the copy of the database and its return: about four turns. */
const LATER_VISITS = 20
const LATER_MS = 30_000
const FIRST_RESULT_MS = 120_000

export const STORAGE_FAULTS: readonly Fault[] = [
  {
    name: 'lost-record:turn',
    store: 'directory',
    // Until it is graded an episode is held in memory; afterwards it is not read again.
    phases: ['executing', 'capturing', 'grading'],
    expects: 'replaced',
    isAlone: true,
    strike: async (input) => {
      const key = await findOpenTurn(input)
      if (key === null) return { seen: () => false }
      await rm(input.stack.fileOf(key))
      return { over: sleep(500), seen: () => true }
    },
  },
  {
    name: 'lost-record:result',
    store: 'directory',
    phases: ['executing', 'grading'],
    expects: 'restarted',
    isAlone: true,
    strike: async (input) => {
      let removed = 0
      const losing = loseFirstResult(input).then((count) => (removed = count))
      const { over, seen } = onceClosed(input, 'FAILED')
      return { over: losing.then(() => over), seen: async () => removed > 0 && (await seen()) }
    },
  },
  {
    name: 'old-database',
    phases: [...AMID, 'training'],
    expects: 'identical',
    isAlone: true,
    strike: async ({ stack }) => {
      await stack.copyDatabase()
      let restored = 0
      const over = moreVisits(stack).then(async () => {
        restored = await stack.restoreDatabase()
        await stack.settle()
      })
      return { over, seen: () => restored > 0 }
    },
  },
]

/** The first action of an episode that has committed it and has no result yet. */
async function findOpenTurn({ stack: { store }, run, random }: StrikeInput): Promise<string | null> {
  const keys = await store.list(`episodes/${run}/`)
  const folders = keys.flatMap((key) => /^(.*)\/turns\/0000\.observation\.json$/.exec(key)?.[1] ?? [])
  const open = folders.filter((folder) => !keys.includes(`${folder}/result.json`))
  const [chosen] = random.sample(open, Math.min(1, open.length))
  return chosen === undefined ? null : `${chosen}/turns/0000.action.json`
}

async function loseFirstResult({ stack, run }: StrikeInput): Promise<number> {
  for (const deadline = Date.now() + FIRST_RESULT_MS; Date.now() < deadline; await sleep(50)) {
    const found = (await stack.store.list(`episodes/${run}/`)).find((key) => key.endsWith('/result.json'))
    if (found === undefined) continue
    await rm(stack.fileOf(found))
    return 1
  }
  return 0
}

async function moreVisits({ visits }: ChaosStack): Promise<void> {
  const enough = visits.made.length + LATER_VISITS
  // A training job makes few visits.
  for (const deadline = Date.now() + LATER_MS; Date.now() < deadline && visits.made.length < enough; ) await sleep(50)
}
