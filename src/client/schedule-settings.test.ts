import assert from 'node:assert/strict'
import { test } from 'node:test'
import { faultOfCron } from './schedule-settings.ts'

test('cron fields that name times that exist', () => {
  for (const cron of [
    '0 2 * * *',
    '  */15   0-6,20-23/2 1,15 jan-MARCH mon-fri ',
    '0 0 29 2 *',
    '0 0 29 feb 1',
    '0 0 31 2,3 *',
    '0 0 28-31 2 *',
    '30 4 * * 7',
    '5/10 1 * sept su',
  ]) {
    assert.equal(faultOfCron(cron), null, cron)
  }
})

test('cron fields that the server refuses, or with which nothing would ever start: which field, what is expected, what it got', () => {
  for (const [cron, fault] of [
    ['61 * * * *', /^expected the minute to be \* or 0 to 59, .*, got "61"$/],
    ['0 24 * * *', /the hour to be \* or 0 to 23.* got "24"/],
    ['0 0 0 * *', /the day of the month to be \* or 1 to 31.* got "0"/],
    ['0 0 1 13 *', /the month to be \* or 1 to 12 or a name such as feb.* got "13"/],
    ['0 0 1 ja *', /the month .* got "ja"/],
    ['0 0 * * 8', /the day of the week to be \* or 0 to 7 or a name such as mon.* got "8"/],
    ['0 0 * * m', /the day of the week .* got "m"/],
    ['0 0 * * 5-1', /from the smaller to the larger value, got "5-1"/],
    ['0 1-2-3 * * *', /the hour .* got "1-2-3"/],
    ['0 -1 * * *', /the hour .* got "-1"/],
    ['1, * * * *', /the minute .* got ""/],
    [',1 * * * *', /the minute .* got ""/],
    ['1.5 * * * *', /the minute .* got "1\.5"/],
    ['? * * * *', /the minute .* got "\?"/],
    ['@daily', /five cron fields/],
    ['* * * * * *', /five cron fields/],
    ['TZ=UTC 0 2 * *', /the minute .* got "TZ=UTC"/],
    ['', /five cron fields/],
    ['*/0 * * * *', /a step of 1 to 60 in the minute, got "\*\/0"/],
    ['*/90 * * * *', /a step of 1 to 60 in the minute/],
    ['*/4294967295 * * * *', /the minute .* got/],
    ['0/5/5 * * * *', /the minute .* got/],
    ['0 0 31 2 *', /no month 2 has a day 31, so it would never start anything/],
    ['0 0 30,31 feb *', /no month feb has a day 30,31/],
    ['0 0 31 4,6,9,11 mon', /no month 4,6,9,11 has a day 31/],
  ] as const) {
    assert.match(faultOfCron(cron) ?? 'none', fault, cron)
  }
})
