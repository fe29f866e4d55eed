/** Two sandbox hosts with engines of their own: one joins, is drained, is the last one, is taken back, and is mistaken for another. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { useEnvironment } from '../support/environment.ts'
import { randomFrom } from '../../src/adapters/datasets/synthetic/compose.ts'
import { findBlockers, type HostAnswer, type ListedHost } from '../../src/client/index.ts'
import type { EpisodeRecord, PlacementRecord } from '../../src/contracts/episodes.types.ts'
import { episodeKeys } from '../../src/contracts/keys.ts'
import { listSandboxes } from '../../src/adapters/docker/container/list-sandboxes.ts'
import { type ChaosRole, type ChaosStack, needsChaos, startChaosStack } from '../support/chaos/chaos-stack.ts'
import { compareRuns } from '../support/chaos/compare-runs.ts'
import type { Fault } from '../support/chaos/faults.ts'
import { type PlayedRun, playRun } from '../support/chaos/play-run.ts'
import type { RunDigest } from '../support/chaos/run-digest.ts'
import { longhaul } from '../support/command-line.ts'
import { eventually, HANG_MS } from '../support/hang.ts'
import { episodesOf } from '../support/run-records.ts'

const LONGHAUL = join(import.meta.dirname, '../../bin/longhaul.mjs')

describe('hosts', { skip: needsChaos }, () => {
  let stack: ChaosStack
  let quiet: RunDigest

  before(async () => {
    stack = await startChaosStack({ training: false, say: console.error })
    process.env['LONGHAUL_TEMPORAL_ADDRESS'] = stack.temporalAddress
    // Its engine takes long to begin with; its worker joins amid a run.
    await stack.addHost()
    await stack.stopWorker('sandbox-b')
    const alone = await play([])
    assert.deepEqual(alone.violations, [])
    quiet = alone.digest
  })

  after(() => stack?.close())
  useEnvironment({ after })

  test('a worker on another machine refuses to start under the name of a live host and does not disturb it', async () => {
    const { env } = stack.process('sandbox-b').plan
    const child = spawn(process.execPath, [LONGHAUL, 'worker', '--role', 'sandbox'], {
      env: { ...process.env, ...env, LONGHAUL_HOST_ID: 'chaos-a' },
      stdio: ['ignore', 'ignore', 'pipe'],
      timeout: HANG_MS,
    })
    let stderr = ''
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
    const [code] = (await once(child, 'exit')) as [number | null]
    assert.equal(code, 1, stderr)
    assert.match(stderr, /Config\.Invalid: Another machine already serves as sandbox host chaos-a .*LONGHAUL_HOST_ID/)
    await untilHost('chaos-a', ({ state }) => state === 'open')
  })

  test('a run moves between hosts when one is drained, in both directions, and equals the undisturbed one', async () => {
    const answers: HostAnswer[] = []
    const there = strikeAt({
      process: 'sandbox',
      strike: async () => {
        await stack.startWorker('sandbox-b')
        answers.push(await steer('drain', 'chaos-a', '--move'))
        await untilClosed('chaos-a')
      },
    })
    const back = strikeAt({
      process: 'sandbox-b',
      strike: async () => {
        answers.push(await steer('uncordon', 'chaos-a'), await steer('drain', 'chaos-b', '--move'))
        await untilClosed('chaos-b')
      },
      over: () => untilHost('chaos-b', ({ state }) => state === 'drained'),
    })
    const played = await play([there, back])
    assert.deepEqual(played.violations, [])
    assert.deepEqual(namesOf(played), [there.name, back.name])
    assert.deepEqual(compareRuns({ quiet, hurt: played.digest, expects: 'identical' }), [])
    assert.partialDeepStrictEqual(answers, [
      { host: 'chaos-a', changed: true, pending: false, state: { drain: { moving: true } } },
      { host: 'chaos-a', changed: true, pending: false, state: { drain: null } },
      { host: 'chaos-b', changed: true, pending: false, state: { drain: { moving: true } } },
    ])
    const placements = await placementsOf(played.run)
    assert.ok(
      placements.some((all) => all.join() === 'chaos-a,chaos-b,chaos-a'),
      `no episode has moved there and back: ${JSON.stringify(placements)}`,
    )
    const { engine } = stack.engines.b ?? assert.fail('the second host is gone')
    assert.deepEqual(await listSandboxes({ engine }), [])
  })

  test('a restarted host stays drained, draining again changes nothing, and an unknown name lists the known ones', async () => {
    const stoppedMs = Date.now()
    await stack.stopWorker('sandbox-b')
    stack.process('sandbox-b').start()
    const { facts } = await untilHost('chaos-b', ({ facts: now }) => Date.parse(now?.since ?? '') > stoppedMs)
    assert.partialDeepStrictEqual(facts, { takesWork: false, sandboxes: 0 })
    assert.partialDeepStrictEqual(await steer('drain', 'chaos-b', '--move'), { changed: false, pending: false })
    assert.partialDeepStrictEqual(await steer('uncordon', 'chaos-a'), { changed: false, pending: false })
    assert.partialDeepStrictEqual(await steer('uncordon', 'chaos-b', '--dry-run'), { changed: true, dryRun: true })
    assert.notEqual((await hosts()).find(({ host }) => host === 'chaos-b')?.drain, null)

    const { exitCode, stderr } = await longhaul('host', 'drain', 'chaos-z')
    assert.equal(exitCode, 1)
    assert.match(stderr, /Config\.NotFound.*chaos-z.*known are chaos-a, chaos-b/)
  })

  test('a run whose last host is drained names what it waits for and continues when the host is taken back', async () => {
    const drain = strikeAt({
      process: 'sandbox',
      // A host obeys within seconds. Without samples for as long, no episode ends before it does, and of the four that are graded afterwards
      // the two polls that are under way bring it two at most.
      strike: async () => {
        const policy = stack.process('policy')
        policy.signal('SIGSTOP')
        try {
          await steer('drain', 'chaos-a')
          await untilClosed('chaos-a')
        } finally {
          policy.signal('SIGCONT')
        }
      },
      over: async () => {
        try {
          await untilHost('chaos-a', ({ state }) => state === 'drained')
          const blocked = await eventually(async () => {
            const { blockers } = await findBlockers({
              connection: stack.connection,
              workflowId: `eval/${runName}`,
              longerThanMs: 0,
            })
            const found = blockers.find(({ error }) => error?.code === 'Host.Closed')
            assert.ok(found, JSON.stringify(blockers))
            return found
          })
          assert.deepEqual(blocked.on, { kind: 'host', name: 'chaos-a, chaos-b' })
          assert.match(blocked.toDo, /longhaul host uncordon/)
        } finally {
          // A host that stayed drained would fail every later test as well.
          await steer('uncordon', 'chaos-a')
        }
      },
    })
    const played = await play([drain])
    assert.deepEqual(played.violations, [])
    assert.deepEqual(namesOf(played), [drain.name])
    assert.deepEqual(compareRuns({ quiet, hurt: played.digest, expects: 'identical' }), [])
    const placements = await placementsOf(played.run)
    assert.ok(
      placements.every((all) => all.join() === 'chaos-a'),
      JSON.stringify(placements),
    )
  })

  test('episodes spread over two idle hosts, and a worker restart amid a turn leaves the run undisturbed', async () => {
    await steer('uncordon', 'chaos-b')
    await untilHost('chaos-b', ({ facts }) => facts?.takesWork === true)
    const upgrade = strikeAt({
      process: ['sandbox', 'sandbox-b'],
      strike: async (process) => stack.process(process).signal('SIGTERM'),
      over: (process) => stack.startWorker(process),
    })
    // A host holds back for milliseconds after each episode. On a busy machine the other one may not ask in that time.
    const seen: string[][] = []
    do {
      const played = await play([upgrade])
      assert.deepEqual(played.violations, [])
      assert.deepEqual(namesOf(played), [upgrade.name])
      assert.deepEqual(compareRuns({ quiet, hurt: played.digest, expects: 'identical' }), [])
      const placements = await placementsOf(played.run)
      seen.push([...new Set(placements.flat())].toSorted())
    } while (seen.at(-1)?.length === 1 && seen.length < 3)
    assert.deepEqual(seen.at(-1), ['chaos-a', 'chaos-b'], JSON.stringify(seen))
  })

  let runName = ''

  /** Remembers the run's name for what strikes. */
  function strikeAt(plan: {
    process: ChaosRole | readonly ChaosRole[]
    strike: (process: ChaosRole) => Promise<void>
    over?: (process: ChaosRole) => Promise<unknown>
  }): Fault {
    const processes: readonly string[] = [plan.process].flat()
    return {
      name: `host ${++strikes}`,
      phases: ['executed'],
      expects: 'identical',
      matches: ({ process: name }) => processes.includes(name),
      async strike({ run, visit }) {
        runName = run
        const process = visit.process as ChaosRole
        await plan.strike(process)
        return { over: plan.over?.(process) ?? Promise.resolve(), seen: () => true }
      },
    }
  }

  function play(faults: readonly Fault[]): Promise<PlayedRun> {
    return playRun({
      stack,
      kind: 'evaluation',
      recipeSeed: 1,
      seed: 1,
      cells: faults.map((fault) => ({ cell: { fault, phase: 'executed', nth: 0 }, count: 1 })),
      random: randomFrom('hosts'),
      limitMs: null,
      say: console.error,
    })
  }

  async function steer(...args: string[]): Promise<HostAnswer> {
    const { exitCode, stdout, stderr } = await longhaul('host', ...args, '--json')
    assert.equal(exitCode, 0, stderr)
    return JSON.parse(stdout) as HostAnswer
  }

  async function hosts(): Promise<ListedHost[]> {
    const { stdout } = await longhaul('host', 'list', '--json')
    return (JSON.parse(stdout) as { hosts: ListedHost[] }).hosts
  }

  /** Its worker has heard of it: what is struck goes on afterwards. */
  function untilClosed(name: string): Promise<ListedHost> {
    return untilHost(name, ({ facts }) => facts?.takesWork === false)
  }

  function untilHost(name: string, isReached: (host: ListedHost) => boolean): Promise<ListedHost> {
    return eventually(async () => {
      const all = await hosts()
      const found = all.find((one) => one.host === name && isReached(one))
      assert.ok(found, JSON.stringify(all))
      return found
    })
  }

  /** Hosts of each episode's placements, in order. */
  async function placementsOf(run: string): Promise<string[][]> {
    const episodes: EpisodeRecord[] = await episodesOf(stack.store, run)
    return Promise.all(
      episodes.map(async ({ episode }) => {
        const keys = await stack.store.list(episodeKeys.placements(episode))
        const records = await Promise.all(keys.toSorted().map((key) => stack.store.readRecord<PlacementRecord>(key)))
        return records.map((record) => record?.hostId ?? '')
      }),
    )
  }
})

let strikes = 0

function namesOf({ struck }: PlayedRun): string[] {
  return struck.map(({ fault }) => fault.name)
}
