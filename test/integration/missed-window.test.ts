/**
 * A night whose catch-up window has passed. The server is killed while nights are due, and comes back with its database later than
 * the window allows: it counts them as missed, the list of schedules says so, and the watch makes one alarm of it.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { useEnvironment } from '../support/environment.ts'
import { findAlarms } from '../../src/activities/alarms/find-alarms.ts'
import { createDirectoryStore } from '../../src/adapters/artifacts/directory-store.ts'
import {
  connect,
  createSchedule,
  listSchedules,
  type LonghaulConnection,
  pauseSchedule,
} from '../../src/client/index.ts'
import type { Alarm } from '../../src/contracts/alarms.types.ts'
import { alarmKeys } from '../../src/contracts/keys.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { temporalService } from '../../src/stack/services.ts'
import { ensureTemporalCli } from '../../src/stack/setup/temporal-cli.ts'
import { alarmSources } from '../../src/workers/alarm-sources.ts'
import { longhaul } from '../support/command-line.ts'
import { freePort } from '../support/loopback.ts'
import { eventually } from '../support/hang.ts'

/** The server's smallest. */
const WINDOW_MS = 10_000
const DUE_EVERY_MS = 2_000
const NAMESPACE = 'nights'
useEnvironment({ after })

let folder: string
let port: number
let start: () => Promise<LonghaulConnection>
let server: ChildProcess | undefined
let connection: LonghaulConnection | undefined

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'longhaul-missed-'))
  port = await freePort()
  const context = {
    signal: AbortSignal.timeout(600_000),
    log: (line: string) => console.error(line),
    saw: () => undefined,
  }
  const cli = (await ensureTemporalCli({ cacheDir: stackPaths().cacheDir, context })).value
  const place = { cli, dataDir: folder, port, namespace: NAMESPACE, codecPort: null }
  const { command, args } = temporalService({ ...place, uiPort: await freePort() })
  const address = `127.0.0.1:${port}`
  process.env['LONGHAUL_TEMPORAL_ADDRESS'] = address
  process.env['LONGHAUL_NAMESPACE'] = NAMESPACE
  start = async () => {
    server = undefined
    return eventually(() => {
      // A server that finds one of its ports taken ends at once.
      if (server === undefined || server.exitCode !== null)
        server = spawn(command, args, { stdio: ['ignore', 'ignore', 'inherit'] })
      return connect({ address, namespace: NAMESPACE })
    })
  }
})

after(async () => {
  await connection?.close()
  server?.kill('SIGKILL')
  await rm(folder, { recursive: true, force: true, maxRetries: 3 })
})

const here = (): LonghaulConnection => connection ?? assert.fail('no server')

test('starts that the server missed beyond the catch-up window are listed and raise one alarm', async () => {
  const store = createDirectoryStore({ root: join(folder, 'artifacts') })
  const world = {
    store,
    sources: alarmSources({ address: `127.0.0.1:${port}`, namespace: NAMESPACE }),
    viewerUrl: null,
    env: { HOOK: 'https://hooks.example.org/' },
  }
  const receiver = { urlVariable: 'HOOK', secretVariable: null, template: 'json' as const }
  const look = () => findAlarms(world, { blockerMinutes: 10, runs: 'scheduled', receiver })

  connection = await start()
  await eventually(look)
  const settings = { recipe: 'mini', jitter: '0s', catchupWindow: `${WINDOW_MS / 1000}s`, overlap: 'skip' as const }
  // A new server answers its first questions late.
  await eventually(() => createSchedule({ connection: here(), id: 'nightly', ...settings }))
  // Nights two seconds apart: the outage needs to be no longer than the window and a few of them.
  await eventually(() =>
    here()
      .client.schedule.getHandle('nightly')
      .update((before) => ({ ...before, spec: { intervals: [{ every: DUE_EVERY_MS }] } })),
  )
  const counted = () =>
    eventually(
      async () => (await listSchedules({ connection: here() }))[0] ?? assert.fail('the schedule is not listed'),
    )
  await eventually(async () => assert.ok((await counted()).recentRuns.length > 0, 'the scheduled run has not started'))

  const { missedCatchup: missedBefore } = await counted()
  await connection.close()
  const ended = once(server ?? assert.fail(), 'exit')
  server?.kill('SIGKILL')
  await ended
  await sleep(WINDOW_MS + 3 * DUE_EVERY_MS)
  connection = await start()

  await eventually(async () => assert.ok((await counted()).missedCatchup > missedBefore))
  // What is due from now on changes the other counter, and with it the alarm.
  await eventually(() => pauseSchedule({ connection: here(), id: 'nightly', paused: true }))
  const { missedCatchup } = await counted()
  await eventually(async () => {
    const listed = await longhaul('schedule', 'list')
    assert.match(listed.stdout, new RegExp(`nightly[^]*${missedCatchup} runs were missed while the server was away`))
  })

  await eventually(async () => {
    await look()
    const alarms = await Promise.all((await store.list(alarmKeys.all)).map((key) => store.readRecord<Alarm>(key)))
    const text = new RegExp(`and ${missedCatchup} because the server was away for longer than catchupWindow`)
    const found = alarms.filter((alarm) => alarm?.kind === 'skipped' && text.test(alarm.text))
    assert.equal(found.length, 1)
    assert.partialDeepStrictEqual(found[0], { series: 'nightly', title: 'Starts of nightly were skipped' })
    assert.match(found[0]?.text ?? '', /longhaul schedule backfill nightly/)
  })
  const alarms = (await store.list(alarmKeys.all)).length
  await look()
  assert.equal((await store.list(alarmKeys.all)).length, alarms, 'the alarm is sent once')
})
