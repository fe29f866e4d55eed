/** Checks the invariants after each run, from records, from the policy server's requests and from the machine. */
import { RUNNER_LABEL } from '../../../src/adapters/docker/sandbox/runner-volume.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { readWholeTurns } from '../../../src/activities/episode/transcript.ts'
import type { ArtifactStore } from '../../../src/contracts/artifacts.types.ts'
import { checkLedger } from '../../../src/activities/training/check-ledger.ts'
import { listSandboxes } from '../../../src/adapters/docker/container/list-sandboxes.ts'
import type { EpisodeRecord } from '../../../src/contracts/episodes.types.ts'
import { isValidEpisode } from '../../../src/domain/ledger/episode-fates.ts'
import { auditTurns } from '../kill/audit-turns.ts'
import type { Exchange } from '../recording-proxy.ts'
import { episodesOf, recipeOf } from '../run-records.ts'
import { readAuditLog } from './audit-log.ts'
import { auditWorlds, type CommandTurns } from './audit-worlds.ts'
import type { ChaosStack } from './chaos-stack.ts'
import { readExchanges } from './effects.ts'
import { judgeRestarts, type Restart } from './judge-restarts.ts'
import { openWorkflows } from './restart-faults.ts'
import { listTrainingJobs } from '../../../src/stack/down.ts'

export interface ChaosJudgement {
  episodes: number
  turns: number
  /** Samples that were answered and lost before their record. */
  sampledAgain: number
  violations: string[]
}

/** How much longer than its lease a resource may exist. */
const LEAK_MS = 60_000

export async function judgeChaos(input: {
  stack: ChaosStack
  run: string
  /** Faults that may have struck; each may cost an episode one turn. */
  strikes: number
  /** Whether one of them freezes a worker and wakes it late. */
  wakesLate: boolean
  /** A cancelled run need not account for episodes that it never began. */
  isWhole: boolean
  restarts: readonly Restart[]
}): Promise<ChaosJudgement> {
  const { stack, run, strikes, wakesLate, isWhole, restarts } = input
  const violations = (await leftBehind(input)).map((what) => `left behind: ${what}`)
  const records = await episodesOf(stack.store, run)
  const valid = records.filter(isValidEpisode)
  const exchanges = readExchanges(stack).filter(({ session }) => session.startsWith(`${run}/`))
  const known = new Set<string>(valid.map(({ episode }) => episode))
  const audit = await auditTurns(
    stack.store,
    valid,
    exchanges.filter(({ session }) => known.has(session)),
    { fileOf: stack.fileOf, lateSamples: wakesLate ? 1 : 0 },
  )
  violations.push(...audit.violations)
  violations.push(...(await withoutOutcome(stack, run, records)))
  const entries = readAuditLog(stack.auditDir)
  const commands = await commandTurns(stack.store, records)
  const { journals, store, visits } = stack
  violations.push(...auditWorlds({ entries, journals, commandsOf: (episode) => commands.get(episode) ?? null }))
  violations.push(...(await judgeRestarts({ store, restarts, exchanges, visits: visits.made, entries })))
  const again = lostTurns(exchanges)
  for (const [episode, { turns }] of again) {
    if (turns > strikes) violations.push(`${episode} lost ${turns} turns to ${strikes} faults`)
  }
  if (isWhole) {
    const ledger = await checkLedger({ store: stack.store, recipe: await recipeOf(stack.store, run) }, run)
    violations.push(...ledger.mismatches.map((mismatch) => `ledger: ${JSON.stringify(mismatch)}`))
    if (ledger.totals.episodes !== records.length) {
      violations.push(`the ledger counts ${ledger.totals.episodes} episodes, there are ${records.length}`)
    }
  }
  const sampledAgain = [...again.values()].reduce((sum, { samples }) => sum + samples, 0)
  return { episodes: records.length, turns: audit.turns, sampledAgain, violations }
}

/** For every episode of the run, the turns that ran a command and their tokens. */
async function commandTurns(
  store: ArtifactStore,
  records: readonly EpisodeRecord[],
): Promise<Map<string, CommandTurns>> {
  const found = new Map<string, CommandTurns>()
  for (const { episode } of records) {
    const turns = await readWholeTurns(store, episode)
    const commands = turns.flatMap(({ action }) =>
      action.command === null ? [] : [[action.turn, action.token] as const],
    )
    found.set(episode, new Map(commands))
  }
  return found
}

/** Every episode that began must have one final record. */
async function withoutOutcome({ store }: ChaosStack, run: string, records: EpisodeRecord[]): Promise<string[]> {
  const begun = (await store.list(`episodes/${run}/`)).filter((key) => key.endsWith('/turns/start.json'))
  const ended = new Set(records.map(({ episode }) => `episodes/${episode}/turns/start.json`))
  return begun.filter((key) => !ended.has(key)).map((key) => `${key} has no outcome`)
}

/** Turns that were answered more than once. A store that refuses writes for some time may cost one turn several samples. */
function lostTurns(exchanges: readonly Exchange[]): Map<string, { turns: number; samples: number }> {
  const answered = exchanges.filter(({ status }) => status === 200)
  const lost = new Map<string, { turns: number; samples: number }>()
  for (const [session, asked] of Map.groupBy(answered, ({ session: one }) => one)) {
    const again = [...Map.groupBy(asked, ({ promptTokens }) => promptTokens).values()].filter(
      ({ length }) => length > 1,
    )
    const samples = again.reduce((sum, { length }) => sum + length - 1, 0)
    if (again.length > 0) lost.set(session, { turns: again.length, samples })
  }
  return lost
}

async function leftBehind(of: { stack: ChaosStack; run: string }): Promise<string[]> {
  for (const deadline = Date.now() + LEAK_MS; ; await sleep(500)) {
    const found = await leftNow(of)
    if (found.length === 0 || Date.now() > deadline) return found
  }
}

async function leftNow({ stack, run }: { stack: ChaosStack; run: string }): Promise<string[]> {
  const { engines } = stack
  const found = listTrainingJobs(stack).map(({ pid }) => `training job ${pid}`)
  if (stack.sandboxes === 'pods') found.push(...(await stack.pods().names()).map((name) => `pod ${name}`))
  found.push(...(await openWorkflows(stack, run)).map((id) => `open workflow ${id}`))
  for (const engine of [engines.a, engines.b]) {
    if (engine === null) continue
    const { docker } = engine.engine
    found.push(...(await listSandboxes({ engine: engine.engine, run })).map(({ name }) => `container ${name}`))
    // The runner's volume stays with the engine, like images.
    const volumes = ((await docker.listVolumes()).Volumes ?? []).filter(
      ({ Labels }) => !(RUNNER_LABEL in (Labels ?? {})),
    )
    found.push(...volumes.map(({ Name }) => `volume ${Name}`))
    const networks = await docker.listNetworks()
    found.push(
      ...networks.filter(({ Name }) => !['bridge', 'host', 'none'].includes(Name)).map(({ Name }) => `network ${Name}`),
    )
  }
  return found
}
