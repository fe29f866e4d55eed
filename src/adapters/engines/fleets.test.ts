/** The process that keeps engines, as workers start it: what dies with it, what does not, and what it says of engines that fail. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, utimes } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { HANG_MS } from '../../../test/support/hang.ts'
import { freePort } from '../../../test/support/loopback.ts'
import { type HostProcess, listProcesses, livenessOf } from '../../platform/processes.ts'
import { type EnginePlan, type EngineState, fleetFiles, type FleetPlan } from './fleet-files.ts'
import { fleetsRoot, stopAllFleets, type Fleets, openFleets } from './fleets.ts'

const TINY = join(import.meta.dirname, '../../../test/support/engines/tiny-engine.ts')

describe('supervised engines', { skip: process.platform === 'linux' ? false : 'looks into /proc' }, () => {
  let enginesDir: string
  let root: string
  let fleets: Fleets
  let runs = 0

  before(async () => {
    enginesDir = await mkdtemp(join(tmpdir(), 'longhaul-engines-'))
    root = fleetsRoot(enginesDir, 'namespace-1')
    fleets = openFleets(root)
  })
  after(async () => {
    await stopAllFleets(enginesDir)
    await rm(enginesDir, { recursive: true, force: true })
  })

  test('restarts a killed engine while the other one continues, and leaves no process at the end', async () => {
    const plan = await planOf([await tiny(0), await tiny(1)])
    await fleets.want(plan)
    const [first, second] = await untilServing(plan)
    process.kill(-pidOf(first), 'SIGKILL')
    const again = await until(plan, ([one]) => one?.phase === 'serving' && one.process?.pid !== first?.process?.pid)
    assert.equal(again[0]?.starts, 2)
    assert.deepEqual(again[1], second)
    await fleets.end(plan.run)
    assert.deepEqual(processesOf(plan.run), [])
    assert.deepEqual(await fleets.list(), [])
  })

  test('ends the children of a killed program before it starts it again', async () => {
    const plan = await planOf([await tiny(0)])
    await fleets.want(plan)
    const [first] = await untilServing(plan)
    const of = (word: string) => listProcesses().filter(({ command }) => command.includes(word))
    const program = of(portOf(plan)).find(({ command }) => !command.startsWith('/bin/sh'))
    const [core] = listProcesses().filter(({ parent }) => parent === program?.pid)
    process.kill(program?.pid ?? 0, 'SIGKILL')
    await until(plan, ([one]) => one?.phase === 'serving' && one.process?.pid !== first?.process?.pid)
    assert.ok(
      core !== undefined && !listProcesses().some(({ pid }) => pid === core.pid),
      'the core process of the engine is still alive',
    )
    await fleets.end(plan.run)
  })

  test('engines end with their killed keeper, and the next heartbeat brings both back', async () => {
    const plan = await planOf([await tiny(0), await tiny(1, 'hold')])
    await fleets.want(plan)
    const engines = await untilServing(plan)
    const keeper = (await fleets.look(plan.run))?.keeper
    process.kill(keeper?.pid ?? 0, 'SIGKILL')
    for (const engine of engines) await untilDead(engine.process)
    await fleets.renew(plan.run)
    const next = await untilServing(plan)
    assert.notDeepEqual((await fleets.look(plan.run))?.keeper, keeper)
    assert.notEqual(pidOf(next[0]), pidOf(engines[0]))
    await fleets.end(plan.run)
    assert.deepEqual(processesOf(plan.run), [])
  })

  test('a state that cannot be written, as on a full disk, ends no engine, and a killed one is started again', async () => {
    const plan = await planOf([await tiny(0), await tiny(1)])
    await fleets.want(plan)
    const [first, second] = await untilServing(plan)
    const keeper = (await fleets.look(plan.run))?.keeper
    const { state } = fleetFiles(join(root, plan.run))
    await rm(state)
    await mkdir(state)
    process.kill(-pidOf(first), 'SIGKILL')
    await untilDead(first?.process ?? null)
    await sleep(1_000)
    assert.deepEqual(
      [keeper, second?.process].map((one) => one && livenessOf(one)),
      ['alive', 'alive'],
    )
    await rm(state, { recursive: true })
    const again = await until(plan, ([one]) => one?.phase === 'serving' && one.process?.pid !== first?.process?.pid)
    assert.deepEqual(again[1], second)
    assert.deepEqual((await fleets.look(plan.run))?.keeper, keeper)
    await fleets.end(plan.run)
  })

  test('engines and keeper end when no worker sends a heartbeat for the length of the lease', async () => {
    const plan = await planOf([await tiny(0)])
    await fleets.want(plan)
    const [engine] = await untilServing(plan)
    const { lease } = fleetFiles(join(root, plan.run))
    const longAgo = new Date(Date.now() - plan.leaseMs - 1_000)
    await utimes(lease, longAgo, longAgo)
    await untilDead(engine?.process ?? null)
    await untilDead((await fleets.look(plan.run))?.keeper ?? null)
    assert.deepEqual(processesOf(plan.run), [])
    await fleets.end(plan.run)
  })

  test('engines end with their stack, and the first heartbeat after its start starts them by the same plan', async () => {
    const plan = await planOf([await tiny(0)])
    await fleets.want(plan)
    const [engine] = await untilServing(plan)
    assert.equal(await stopAllFleets(enginesDir), 1)
    assert.deepEqual(processesOf(plan.run), [])
    assert.equal(await stopAllFleets(enginesDir), 0)
    assert.equal(await fleets.renew(plan.run), true)
    const [again] = await untilServing(plan)
    assert.notEqual(pidOf(again), pidOf(engine))
    await fleets.end(plan.run)
    assert.equal(await fleets.renew(plan.run), false)
  })

  test('another policy keeps the engine unless it has a new generation, which restarts it by the new command', async () => {
    const plan = await planOf([await tiny(0)])
    await fleets.want(plan)
    const [first] = await untilServing(plan)
    const reloaded = changed(plan, { policy: 'v000001-00000001' })
    await fleets.want(reloaded)
    await sleep(1_000)
    assert.deepEqual((await fleets.look(plan.run))?.engines, [first])
    await fleets.want(changed(reloaded, { generation: 1 }))
    const [second] = await until(plan, ([one]) => one?.phase === 'serving' && one.generation === 1)
    assert.notEqual(pidOf(second), pidOf(first))
    await fleets.end(plan.run)
  })

  test('parking ends the engines, also one that ignores TERM, and the keeper can start them again', async () => {
    const plan = await planOf([await tiny(0, 'hold')])
    await fleets.want(plan)
    const [engine] = await untilServing(plan)
    await fleets.want({ ...plan, engines: [] })
    await until(plan, (engines) => engines.length === 0)
    assert.equal(livenessOf(engine?.process as HostProcess), 'dead')
    await fleets.want(plan)
    await untilServing(plan)
    await fleets.end(plan.run)
  })

  describe('an engine that does not start', () => {
    test('a missing program is reported once, with the setting that names it', async () => {
      const { problem, starts } = await failing({ ...(await tiny(0)), start: command('/no/such/vllm', 'serve') })
      assert.match(problem ?? '', /The program \/no\/such\/vllm is not installed on .*policyServer\.launch\.program/)
      assert.equal(starts, 1)
    })

    test('a refused flag is reported with the explanation of its log', async () => {
      const text = 'echo "vllm: error: unrecognized arguments: --no-such-flag" >&2; exit 2'
      const { problem, starts } = await failing({ ...(await tiny(0)), start: command('sh', '-c', text) })
      assert.match(problem ?? '', /does not know --no-such-flag\. Leave it out/)
      assert.equal(starts, 1)
    })

    test('a port in use is reported with what names its holder', async (t) => {
      const engine = await tiny(0)
      const { port, hostname } = new URL(engine.url)
      const other = createServer().listen(Number(port), hostname)
      await once(other, 'listening')
      t.after(() => other.close())
      const { problem } = await failing(engine)
      assert.match(problem ?? '', new RegExp(`listens on port ${port}: .*policyServer\\.launch\\.port`))
    })

    test('exhausted memory is reported, by its log or by the signal that ended it', async () => {
      const printing = command('sh', '-c', 'echo "torch.OutOfMemoryError: CUDA out of memory. Tried" >&2; exit 1')
      const killed = command('sh', '-c', 'kill -KILL $$')
      for (const start of [printing, killed]) {
        assert.match((await failing({ ...(await tiny(0)), start })).problem ?? '', /memory/)
      }
    })

    test('an engine that gives no answer in time is ended, with the key for a longer time', async () => {
      const { problem, process: left } = await failing(await tiny(0, 'mute'), 1_500)
      assert.match(problem ?? '', /did not answer within 2 s: raise policyServer\.launch\.startTimeoutS/)
      assert.equal(left, null)
    })

    test('an unknown failure is reported with its last output after three starts', async () => {
      const { problem, starts } = await failing({
        ...(await tiny(0)),
        start: command('sh', '-c', 'echo strange; exit 3'),
      })
      assert.match(problem ?? '', /It ended with status 3\. Its last words:\n[^]*strange/)
      assert.equal(starts, 3)
    })

    async function failing(engine: EnginePlan, startTimeoutMs = HANG_MS): Promise<EngineState> {
      const plan = { ...(await planOf([engine])), startTimeoutMs }
      await fleets.want(plan)
      const [state] = await until(plan, ([one]) => one?.phase === 'failed')
      await fleets.end(plan.run)
      assert.deepEqual(processesOf(plan.run), [])
      assert.ok(state !== undefined && (state.starts === 0 || existsSync(join(root, plan.run))), 'its log is gone')
      return state
    }
  })

  async function planOf(engines: EnginePlan[]): Promise<FleetPlan> {
    return { run: `run-${runs++}`, owner: 'train/run', leaseMs: HANG_MS, startTimeoutMs: HANG_MS, engines }
  }

  async function tiny(index: number, ...how: string[]): Promise<EnginePlan> {
    const port = await freePort()
    return {
      name: `engine-${index}`,
      url: `http://127.0.0.1:${port}`,
      generation: 0,
      policy: 'v000000-00000000',
      start: command(process.execPath, TINY, String(port), ...how),
    }
  }

  function command(...words: string[]): EnginePlan['start'] {
    return { environment: {}, command: words }
  }

  function changed(plan: FleetPlan, change: Partial<EnginePlan>): FleetPlan {
    return { ...plan, engines: plan.engines.map((engine) => ({ ...engine, ...change })) }
  }

  function portOf({ engines: [engine] }: FleetPlan): string {
    return new URL(engine?.url ?? '').port
  }

  function pidOf(engine: EngineState | undefined): number {
    assert.ok(engine?.process, 'it has no process')
    return engine.process.pid
  }

  function untilServing(plan: FleetPlan): Promise<EngineState[]> {
    return until(plan, (all) => all.length === plan.engines.length && all.every(({ phase }) => phase === 'serving'))
  }

  async function until({ run }: FleetPlan, holds: (engines: EngineState[]) => boolean): Promise<EngineState[]> {
    let last: EngineState[] = []
    for (const deadline = Date.now() + HANG_MS; Date.now() < deadline; await sleep(50)) {
      const state = await fleets.look(run)
      last = state !== null && livenessOf(state.keeper) === 'alive' ? state.engines : []
      if (state !== null && livenessOf(state.keeper) === 'alive' && holds(last)) return last
    }
    throw new Error(`The engines did not get there: ${JSON.stringify(last)}`)
  }

  async function untilDead(process: HostProcess | null): Promise<void> {
    assert.ok(process)
    for (const deadline = Date.now() + HANG_MS; livenessOf(process) === 'alive'; await sleep(50)) {
      assert.ok(Date.now() < deadline, `${process.pid} lives on`)
    }
  }

  /** Keeper and engines, which name the directory or the ports of the run. */
  function processesOf(run: string): string[] {
    return listProcesses()
      .filter(({ command: line }) => line.includes(join(root, run)) || line.includes(TINY))
      .map(({ command: line }) => line)
  }
})
