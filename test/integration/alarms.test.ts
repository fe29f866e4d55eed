/**
 * What people are told of without asking: a real control worker looks at a real server and posts to a real receiver. No trainer
 * serves the namespace, so a run that asks for its policy stands still; an unknown recipe fails its run; a regressed night lies in the store.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createHmac } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Connection } from '@temporalio/client'
import { useEnvironment } from '../support/environment.ts'
import { createDirectoryStore } from '../../src/adapters/artifacts/directory-store.ts'
import { createSchedule, type LonghaulConnection, triggerSchedule } from '../../src/client/index.ts'
import type { Alarm, WatchInput, WatchResult } from '../../src/contracts/alarms.types.ts'
import { nightKeys } from '../../src/contracts/keys.ts'
import { hasPoller, prepareNamespace } from '../../src/stack/temporal-namespace.ts'
import { longhaul } from '../support/command-line.ts'
import { eventually, HANG_MS } from '../support/hang.ts'
import { nightRecord } from '../support/night-records.ts'
import { connectToOwnNamespace, needsServer } from '../support/own-namespace.ts'
import { startReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const KEY = 'a-key-that-nothing-may-show'
const TOKEN = 'token-in-the-address'

describe('alarms', { skip: needsServer }, () => {
  let scratch: string
  let connection: LonghaulConnection
  let receiver: WebhookReceiver
  let worker: ChildProcess
  let log = ''
  useEnvironment({ after })

  before(async () => {
    scratch = await mkdtemp(join(tmpdir(), 'longhaul-alarms-'))
    connection = await connectToOwnNamespace('alarms')
    const { address, namespace } = connection
    await prepareNamespace({ address, namespace, raiseRetention: false })
    // The first alarm meets a receiver that is ill.
    receiver = await startReceiver([500])
    process.env['LONGHAUL_NAMESPACE'] = namespace
    const command = [join(root, 'bin/longhaul.mjs'), 'worker', '--role', 'control']
    worker = spawn(process.execPath, command, {
      env: {
        ...process.env,
        LONGHAUL_TEMPORAL_ADDRESS: address,
        LONGHAUL_NAMESPACE: namespace,
        LONGHAUL_ARTIFACTS: join(scratch, 'artifacts'),
        LONGHAUL_ALARM_URL: `${receiver.url}/hook/${TOKEN}`,
        LONGHAUL_ALARM_SECRET: KEY,
        LONGHAUL_ALARM_HOSTS: receiver.host,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    for (const stream of [worker.stdout, worker.stderr]) stream?.on('data', (text: Buffer) => (log += text.toString()))
    const wanted = { namespace, queue: 'control', pid: worker.pid ?? 0 }
    for (const deadline = Date.now() + HANG_MS; Date.now() < deadline; await sleep(500)) {
      if (await hasPoller(connection.client.connection as Connection, wanted)) return
    }
    throw new Error(`Expected the control worker to poll; it said:\n${log}`)
  })

  after(async () => {
    worker?.kill('SIGKILL')
    await receiver?.[Symbol.asyncDispose]()
    await connection?.close()
    await rm(scratch, { recursive: true, force: true })
  })

  async function watchOnce(changes: Partial<WatchInput> = {}): Promise<WatchResult> {
    const input: WatchInput = {
      // Shorter than a file may say: a test waits for no minute.
      blockerMinutes: 0.05,
      runs: 'scheduled',
      receiver: { urlVariable: 'LONGHAUL_ALARM_URL', secretVariable: 'LONGHAUL_ALARM_SECRET', template: 'json' },
      ...changes,
    }
    const workflowId = `watch/test-${Date.now()}`
    const options = { workflowId, taskQueue: 'control', args: [input], workflowExecutionTimeout: '5m' as const }
    return (await connection.client.workflow.execute('watch', options)) as WatchResult
  }

  const received = (): Alarm[] =>
    receiver.got.filter(({ answer }) => answer === 200).map(({ body }) => JSON.parse(body) as Alarm)

  test('the first watch reports nothing, and each regression, failure, skipped start and blocker is reported once', {
    timeout: 4 * HANG_MS,
  }, async () => {
    assert.deepEqual(await watchOnce(), { sent: 0, givenUp: 0, notLookedAt: 0 })
    const settings = { connection, recipe: 'mini', jitter: '0s', overlap: 'skip' as const }
    await createSchedule({ ...settings, id: 'stands-still' })
    await createSchedule({ ...settings, id: 'fails', recipe: 'no-such-recipe' })
    // The first run stays open, since no trainer serves the namespace: the next start is left out.
    await triggerSchedule({ connection, id: 'stands-still' })
    await triggerSchedule({ connection, id: 'fails' })
    const handle = connection.client.schedule.getHandle('stands-still')
    await handle.trigger('SKIP')
    await eventually(async () => assert.equal((await handle.describe()).info.numActionsSkippedOverlap, 1))
    const night = nightRecord({
      series: 'stands-still',
      run: 'night-2',
      at: new Date().toISOString(),
      policy: 'v000002-bbbbbbbb',
      outcome: 'regressed',
      before: 'night-1',
    })
    await createDirectoryStore({ root: join(scratch, 'artifacts') }).putRecord(nightKeys.night(night.night), night)

    await eventually(async () => {
      await watchOnce()
      assert.deepEqual(
        received()
          .map(({ kind }) => kind)
          .toSorted(),
        ['blocker', 'failure', 'regression', 'skipped'],
      )
    })
    // Each once more looked for, none sent again.
    assert.equal((await watchOnce()).sent, 0)
    assert.equal(received().length, 4)

    const of = Object.fromEntries(received().map((alarm) => [alarm.kind, alarm])) as Record<string, Alarm>
    assert.match(of['failure']?.text ?? '', /^Config\.NotFound: .*no-such-recipe/)
    assert.match(of['failure']?.workflowId ?? '', /^eval\/fails-/)
    assert.match(of['blocker']?.title ?? '', /waits for worker trainer$/)
    assert.match(of['blocker']?.text ?? '', /What to do: start a worker for it/)
    assert.match(of['skipped']?.text ?? '', /1 starts were dropped/)
    assert.equal(of['skipped']?.series, 'stands-still')
    assert.equal(of['regression']?.run, 'night-2')
  })

  test('an alarm is sent again with a new signature after the receiver failed', () => {
    const [ill] = receiver.got
    assert.equal(ill?.answer, 500)
    const again = receiver.got.filter(({ headers }) => headers['webhook-id'] === ill.headers['webhook-id'])
    assert.deepEqual(
      again.map(({ answer }) => answer),
      [500, 200],
    )
    for (const { headers, body } of receiver.got) {
      const signed = `${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${body}`
      const signature = createHmac('sha256', KEY).update(signed).digest('base64')
      assert.equal(headers['webhook-signature'], `v1,${signature}`)
    }
  })

  test('a missing variable ends the watch with a code that names it', async () => {
    const wrong = { urlVariable: 'LONGHAUL_NO_SUCH_VARIABLE', secretVariable: null, template: 'slack' as const }
    await assert.rejects(watchOnce({ receiver: wrong }), (error: Error) =>
      /LONGHAUL_NO_SUCH_VARIABLE/.test(String(error.cause)),
    )
  })

  test('applying the file creates the watch with variable names only and prints the difference', async () => {
    const file = join(scratch, 'schedules.yaml')
    const schedules = 'schedules:\n  fails: { recipe: mini, cron: "0 3 * * *" }\n'
    await writeFile(
      file,
      `${schedules}alarms: { urlVariable: LONGHAUL_ALARM_URL, secretVariable: LONGHAUL_ALARM_SECRET }\n`,
    )
    const made = await longhaul('schedule', 'apply', file)
    assert.deepEqual([made.exitCode, made.stderr], [0, ''])
    assert.match(made.stdout, /^created longhaul-alarms: looks for alarms$/m)
    assert.match(made.stdout, /^not in the file stands-still$/m)
    assert.match((await longhaul('schedule', 'apply', file)).stdout, /^unchanged longhaul-alarms/m)
    await writeFile(
      file,
      `${schedules}alarms: { urlVariable: LONGHAUL_ALARM_URL, template: slack, blockerMinutes: 60 }\n`,
    )
    const changed = await longhaul('schedule', 'apply', file)
    assert.match(changed.stdout, /^updated longhaul-alarms/m)
    assert.match(changed.stdout, /^ {2}blockerMinutes: 30 → 60$/m)
    assert.match(changed.stdout, /^ {2}template: json → slack$/m)
    assert.doesNotMatch((await longhaul('schedule', 'list')).stdout, /longhaul-alarms/)

    for (const [alarms, why] of [
      [
        `{ urlVariable: "https://hooks.example.org/${TOKEN}" }`,
        /alarms\.urlVariable \(line 3\): expected the name of an/,
      ],
      [`{ urlVariable: A, secretVariable: "${TOKEN}=" }`, /alarms\.secretVariable \(line 3\): expected the name of an/],
      [`{ urlVariable: { value: "${TOKEN}" } }`, /alarms\.urlVariable \(line 3\): expected text/],
      [`"https://hooks.example.org/${TOKEN}"`, /alarms \(line 3\): expected a mapping/],
    ] as const) {
      await writeFile(file, `${schedules}alarms: ${alarms}\n`)
      const refused = await longhaul('schedule', 'apply', file)
      assert.equal(refused.exitCode, 1)
      assert.match(refused.stderr, why)
      assert.ok(!refused.stderr.includes(TOKEN))
    }
    await writeFile(file, schedules)
    assert.match((await longhaul('schedule', 'apply', file)).stdout, /^not in the file longhaul-alarms$/m)
    assert.match((await longhaul('schedule', 'apply', file, '--prune')).stdout, /^deleted longhaul-alarms$/m)
  })

  test('no history, record or log line of the worker contains the address or the key', async () => {
    const histories = []
    for await (const { workflowId, runId } of connection.client.workflow.list()) {
      histories.push(await connection.client.workflow.getHandle(workflowId, runId).fetchHistory())
    }
    assert.ok(histories.length >= 5)
    const texts = [JSON.stringify(histories, (_, value: unknown) => readable(value)), log]
    const files = await readdir(join(scratch, 'artifacts'), { recursive: true, withFileTypes: true })
    for (const file of files.filter((one) => one.isFile()))
      texts.push(await readFile(join(file.parentPath, file.name), 'utf8'))
    assert.match(texts[0] ?? '', /LONGHAUL_ALARM_URL/, 'payloads were not read')
    for (const text of texts) for (const secret of [KEY, TOKEN]) assert.ok(!text.includes(secret), text.slice(0, 2_000))
  })
})

/** Bytes of payloads as the text that they are. */
function readable(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString()
  const bytes = value as { type?: unknown; data?: unknown } | null
  return bytes?.type === 'Buffer' && Array.isArray(bytes.data) ? Buffer.from(bytes.data as number[]).toString() : value
}
