import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isLonghaulError } from '../contracts/errors.ts'
import { type AlarmsRequest, alarmSettings } from './alarm-schedule.ts'

const REQUEST: AlarmsRequest = { urlVariable: 'LONGHAUL_ALARM_URL', secretVariable: 'LONGHAUL_ALARM_SECRET' }

test('a request with only its two required names gets defaults for the rest', () => {
  assert.deepEqual(alarmSettings(REQUEST), {
    ...REQUEST,
    template: 'json',
    blockerMinutes: 30,
    everyMinutes: 5,
    runs: 'scheduled',
  })
})

const REFUSED: [string, Partial<AlarmsRequest>, RegExp][] = [
  ['an address instead of a name', { urlVariable: 'https://hooks.example.org/hidden' }, /alarms\.urlVariable/],
  ['a key instead of a name', { secretVariable: 'whsec_hidden==' }, /alarms\.secretVariable/],
  ['an unknown name in the template', { template: { a: [{ b: '{{titel}}' }] } }, /got \{\{titel\}\}/],
  ['a template that is too long', { template: { text: 'x'.repeat(9_000) } }, /8,000 characters/],
  ['zero minutes', { blockerMinutes: 0 }, /alarms\.blockerMinutes .* got 0/],
  ['fractions of minutes', { everyMinutes: 0.5 }, /alarms\.everyMinutes/],
]
for (const [title, change, says] of REFUSED) {
  test(`refuses ${title} and prints no secret`, () => {
    assert.throws(
      () => alarmSettings({ ...REQUEST, ...change }),
      (error: unknown) => {
        assert.ok(isLonghaulError(error))
        assert.equal(error.code, 'Config.Invalid')
        assert.match(error.message, says)
        assert.doesNotMatch(error.message, /hidden/)
        return true
      },
    )
  })
}

test('the alarm itself is signed, and a message to a chat service need not be', () => {
  assert.throws(() => alarmSettings({ urlVariable: 'A' }), /alarms\.secretVariable/)
  assert.equal(alarmSettings({ urlVariable: 'A', template: 'slack' }).secretVariable, null)
  assert.equal(alarmSettings({ urlVariable: 'A', template: { text: '{{title}} {{link}}' } }).secretVariable, null)
})
