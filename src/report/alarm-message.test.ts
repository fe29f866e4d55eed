import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Alarm } from '../contracts/alarms.types.ts'
import { alarmMessage } from './alarm-message.ts'

const ALARM: Alarm = {
  schema: 'longhaul.alarm/1',
  id: 'regression-1',
  kind: 'regression',
  title: 'nightly regressed',
  text: 'pass@1 0.5 → 0.3',
  run: 'night-2',
  series: 'nightly',
  workflowId: null,
  link: 'https://viewer.example.org/#/run/night-2',
  at: '2026-05-02T03:00:00.000Z',
}

test('json is the alarm itself, and chat services get one text with its link', () => {
  assert.deepEqual(JSON.parse(alarmMessage(ALARM, 'json')), ALARM)
  const words = 'nightly regressed\npass@1 0.5 → 0.3\nhttps://viewer.example.org/#/run/night-2'
  assert.deepEqual(JSON.parse(alarmMessage(ALARM, 'slack')), { text: words })
  assert.deepEqual(JSON.parse(alarmMessage(ALARM, 'discord')), { content: words, allowed_mentions: { parse: [] } })
})

test('fills a custom template inside of its texts at any depth and keeps unknown names', () => {
  const template = {
    type: 'message',
    parts: [{ text: '{{kind}}: {{message}}' }, 7, null],
    note: '{{run}} {{constructor}}',
  }
  assert.deepEqual(JSON.parse(alarmMessage(ALARM, template)), {
    type: 'message',
    parts: [{ text: `regression: nightly regressed\npass@1 0.5 → 0.3\n${ALARM.link}` }, 7, null],
    note: 'night-2 {{constructor}}',
  })
})

test('escapes a text that would mention people, close a string or name another field', () => {
  const hostile = { ...ALARM, text: '<!channel> <https://x|y> & "}],{{id}} @everyone', link: null }
  assert.equal(
    (JSON.parse(alarmMessage(hostile, 'slack')) as { text: string }).text,
    'nightly regressed\n&lt;!channel&gt; &lt;https://x|y&gt; &amp; "}],{{id}} @everyone',
  )
  assert.deepEqual(JSON.parse(alarmMessage(hostile, { a: '{{text}}' })), { a: hostile.text })
  const long = JSON.parse(alarmMessage({ ...ALARM, text: 'x'.repeat(100_000) }, 'discord')) as { content: string }
  // Discord refuses 2,000 characters.
  assert.ok(long.content.length < 2_000)
  assert.ok(long.content.endsWith(ALARM.link ?? ''))
})
