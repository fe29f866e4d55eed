import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { readScheduleFile } from './schedule-file.ts'

const folder = await mkdtemp(join(tmpdir(), 'longhaul-schedules-'))
after(() => rm(folder, { recursive: true }))

test('a file of schedules that is none: the path, the line where there is one, and the reason', async () => {
  const path = join(folder, 'schedules.yaml')
  for (const [text, message] of [
    ['', /Expected schedules in .*\n {2}schedules: expected a mapping of names, got nothing/],
    ['schedules: []\n', /schedules \(line 1\): expected a mapping of names, got \[\]/],
    ['schedules:\n  a:\n    recipe: mini\n    cron: 5\n', /schedules\.a\.cron \(line 4\): expected text, got 5/],
    [
      'schedules:\n  a: { action: play }\n',
      /schedules\.a\.action \(line 2\): expected one of evaluate, train, got "play"/,
    ],
    ['schedules:\n  a: { recipe: mini, nope: 1 }\n', /schedules\.a \(line 2\): knows no nope: leave it out/],
    ['- a\n', /schedules\.yaml:1:1: expected keys with values/],
    ['schedules:\n\ta: 1\n', /schedules\.yaml:2:1: Tabs are not allowed/],
    ['schedules:\n  a: { recipe: mini }\n  a: { recipe: demo }\n', /schedules\.yaml:3:3: Map keys must be unique/],
    // It was left out in silence, and --prune would have deleted every schedule.
    ['schedules:\n  __proto__: { recipe: mini }\n', /schedules\.yaml:2:3: no key may be called __proto__/],
  ] as const) {
    await writeFile(path, text)
    await assert.rejects(readScheduleFile(path), { code: 'Config.Invalid', message }, JSON.stringify(text))
  }
  await assert.rejects(readScheduleFile(folder), { code: 'Config.Invalid', message: /it is a directory/ })
  await assert.rejects(readScheduleFile(join(folder, 'none')), { code: 'Config.NotFound', message: /no such file/ })
})
