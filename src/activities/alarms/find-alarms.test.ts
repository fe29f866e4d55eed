/** Which facts are alarms, and that each is one: against a real store, with the server's answers as data. */
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { useOwnStore } from '../../../test/support/command-line.ts'
import { nightRecord } from '../../../test/support/night-records.ts'
import { startReceiver } from '../../../test/support/webhook-receiver.ts'
import type { Alarm, AlarmLook, AlarmReceiver, WatchInput } from '../../contracts/alarms.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { alarmKeys, nightKeys } from '../../contracts/keys.ts'
import { findAlarms } from './find-alarms.ts'
import { sendAlarm } from './send-alarm.ts'

const RECEIVER: AlarmReceiver = { urlVariable: 'ALARM_URL', secretVariable: 'ALARM_SECRET', template: 'json' }
const WATCH: WatchInput = { blockerMinutes: 30, runs: 'scheduled', receiver: RECEIVER }
const ENV = { ALARM_URL: 'https://hooks.example.org/x', ALARM_SECRET: 'key' }
const NOTHING: AlarmLook = { schedules: [], ended: [], blocked: [], notLookedAt: 0 }
const HOUR_MS = 3_600_000
const START = Date.parse('2026-05-02T10:00:00Z')

let store: ArtifactStore
let close: () => Promise<void>

before(async () => {
  ;({ store, close } = await useOwnStore())
})
beforeEach(async () => {
  await store.removeFolder('alarms/')
  await store.removeFolder('nights/')
})
after(() => close())

/** One round of the watch, `hours` after the first. @returns the alarms that are to be sent */
async function look(found: Partial<AlarmLook>, hours = 0, watch: WatchInput = WATCH) {
  const sources = {
    look: async () => ({ ...NOTHING, ...found }),
    reasonOf: async (workflowId: string) => `Config.NotFound: why ${workflowId} failed`,
  }
  const now = () => new Date(START + hours * HOUR_MS)
  const result = await findAlarms({ store, sources, viewerUrl: 'https://viewer.example.org/', env: ENV, now }, watch)
  const alarms = await Promise.all(result.alarms.map((id) => store.readRecord<Alarm>(alarmKeys.alarm(id))))
  return { ...result, alarms, ids: result.alarms }
}

const kinds = ({ alarms }: { alarms: (Alarm | null)[] }): (string | undefined)[] => alarms.map((alarm) => alarm?.kind)

const NIGHTLY = { id: 'nightly', createdAt: '2026-04-01T00:00:00.000Z', skippedOverlap: 0, missedCatchup: 0 }

test('a failed run raises one alarm with the reason; finding it again repeats the id, and another end is another alarm', async () => {
  const ended = [{ run: 'night-2', workflowId: 'eval/nightly-2', status: 'TIMED_OUT', at: '2026-05-02T09:59:00.000Z' }]
  const first = await look({ ended })
  assert.equal(first.alarms[0]?.title, 'night-2 ended: timed out')
  assert.equal(first.alarms[0].text, 'Config.NotFound: why eval/nightly-2 failed')
  assert.equal(first.alarms[0].link, 'https://viewer.example.org/#/run/night-2')
  assert.deepEqual((await look({ ended }, 1)).ids, first.ids)
  const again = [...ended, { ...ended[0]!, at: '2026-05-02T11:00:00.000Z' }]
  assert.equal((await look({ ended: again }, 2)).ids.length, 2)
})

test('an old enough blocker raises an alarm; the same wait of another episode is the same alarm until the next day', async () => {
  const blocked = (since: string) => [
    {
      run: 'night-2',
      workflowId: 'eval/nightly-2',
      blockers: [
        {
          on: { kind: 'policy-server', name: 'http://10.0.0.7:8000' },
          doing: 'sampling',
          since,
          count: 4,
          code: 'Model.Unavailable',
          toDo: 'restart it',
        },
      ],
    },
  ]
  assert.deepEqual((await look({ blocked: blocked('2026-05-02T09:30:01.000Z') })).ids, [])
  const found = await look({ blocked: blocked('2026-05-02T09:30:00.000Z') })
  assert.match(
    found.alarms[0]?.text ?? '',
    /sampling since .*Model\.Unavailable \(4 activities\)\. What to do: restart it/,
  )
  assert.deepEqual((await look({ blocked: blocked('2026-05-02T10:10:00.000Z') }, 1)).ids, found.ids)
  assert.equal((await look({ blocked: blocked('2026-05-03T00:10:00.000Z') }, 15)).ids.length, 2)
})

test('a wait that keeps its time, such as a pause, alarms again once a day', async () => {
  const on = { kind: 'person', name: 'night-2' }
  const waits = { doing: 'paused', since: '2026-05-02T09:00:00.000Z', count: 1, code: null, toDo: 'resume it' }
  const blocked = [{ run: 'night-2', workflowId: 'eval/nightly-2', blockers: [{ on, ...waits }] }]
  const raised: number[] = []
  for (const hours of [0, 1, 14, 22, 23, 24, 40, 47]) {
    await look({ blocked }, hours)
    raised.push((await store.list(alarmKeys.all)).length)
  }
  assert.deepEqual(raised, [1, 1, 1, 1, 2, 2, 2, 3])
})

test('starts skipped before the watch raise no alarm, a further one does, and a recreated schedule counts again', async () => {
  const old = { ...NIGHTLY, skippedOverlap: 3 }
  assert.deepEqual((await look({ schedules: [old] })).ids, [])
  assert.deepEqual((await look({ schedules: [old] }, 1)).ids, [])
  const more = await look({ schedules: [{ ...old, missedCatchup: 1 }] }, 2)
  assert.deepEqual(kinds(more), ['skipped'])
  assert.match(more.alarms[0]?.text ?? '', /3 starts were dropped .* and 1 because the server was away/)
  const anew = { ...NIGHTLY, createdAt: '2026-05-02T12:30:00.000Z', skippedOverlap: 1 }
  assert.equal((await look({ schedules: [anew] }, 3)).ids.length, 2)
  assert.equal((await look({ schedules: [{ ...anew, skippedOverlap: 2 }] }, 4)).ids.length, 3)
})

test('a regression of a watched series raises an alarm per lost comparison; other outcomes, series and nights do not', async () => {
  const keep = async (...[input]: Parameters<typeof nightRecord>) => {
    const record = nightRecord(input)
    await store.putRecord(nightKeys.night(record.night), record)
  }
  const policy = 'v000002-bbbbbbbb'
  await keep({ run: 'long-ago', at: '2026-04-01T02:00:00.000Z', policy, outcome: 'regressed', before: 'x' })
  await keep({ run: 'night-1', at: '2026-05-02T01:00:00.000Z', policy, outcome: 'cannot-exclude', before: 'x' })
  await keep({ run: 'night-2', at: '2026-05-02T02:00:00.000Z', policy, outcome: 'regressed', before: 'night-1' })
  await keep({
    series: 'by-hand',
    run: 'mine',
    at: '2026-05-02T02:00:00.000Z',
    policy,
    outcome: 'regressed',
    before: 'x',
  })
  const found = await look({ schedules: [NIGHTLY] })
  assert.deepEqual(
    found.alarms.map((alarm) => [alarm?.kind, alarm?.run, alarm?.series]),
    [['regression', 'night-2', 'nightly']],
  )
  assert.match(found.alarms[0]?.text ?? '', /night-1 → night-2: pass@1 0\.75 → 0\.5: regressed/)
  assert.equal((await look({ schedules: [NIGHTLY] }, 1, { ...WATCH, runs: 'all' })).ids.length, 2)
})

test('an alarm is sent once, or retried for a day and then counted as given up', async () => {
  await using receiver = await startReceiver()
  const env = { ...ENV, ALARM_URL: receiver.url, LONGHAUL_ALARM_HOSTS: receiver.host }
  const end = (run: string) => ({ run, workflowId: `eval/${run}`, status: 'FAILED', at: '2026-05-02T09:00:00.000Z' })
  const found = await look({ ended: [end('a'), end('b')] })
  const [first = '', second = ''] = found.ids
  const send = (alarm: string) => sendAlarm({ store, env }, { alarm, receiver: RECEIVER }, new AbortController().signal)
  assert.deepEqual([await send(first), await send(first)], [{ sent: true }, { sent: false }])
  assert.equal(receiver.got.length, 1)
  assert.deepEqual(
    JSON.parse(receiver.got[0]?.body ?? ''),
    withoutHash(await store.readRecord<Alarm>(alarmKeys.alarm(first))),
  )
  assert.deepEqual((await look({}, 23)).ids, [second])
  const late = await look({}, 25)
  assert.deepEqual([late.ids, late.givenUp], [[], 1])
  assert.equal((await look({}, 26)).givenUp, 0)
})

function withoutHash(record: Alarm | null): object {
  const { sha256: _, ...rest } = { sha256: '', ...record }
  return rest
}

test('sends many alarms in parts, the oldest first', async () => {
  const ended = Array.from({ length: 30 }, (_, at) => ({
    run: `r-${at}`,
    workflowId: `eval/r-${at}`,
    status: 'FAILED',
    at: '2026-05-02T09:00:00.000Z',
  }))
  assert.equal((await look({ ended })).ids.length, 20)
})

test('a missing variable, or one without an address, fails the watch before any alarm and shows no value', async () => {
  const sources = { look: async () => NOTHING, reasonOf: async () => '' }
  for (const [env, says] of [
    [{ ALARM_SECRET: 'key' }, /"ALARM_URL"/],
    [{ ALARM_URL: 'https://hooks.example.org' }, /"ALARM_SECRET"/],
    [{ ALARM_URL: 'hidden-value', ALARM_SECRET: 'key' }, /ALARM_URL/],
  ] as const) {
    await assert.rejects(findAlarms({ store, sources, viewerUrl: null, env }, WATCH), (error: Error) => {
      assert.match(error.message, says)
      assert.doesNotMatch(error.message, /hidden-value/)
      return true
    })
  }
})

test('texts of runs become one line of visible characters', async () => {
  const run = 'night\u202e-2\n\u001b[31m'
  const { alarms } = await look({
    ended: [{ run, workflowId: 'eval/n', status: 'FAILED', at: '2026-05-02T09:00:00.000Z' }],
  })
  assert.equal(alarms[0]?.title, 'night\\u{202e}-2 ended: failed')
})
