/** Schedules on a real server, in a namespace that no worker serves: what a schedule starts waits for as long as the test needs. */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { msToTs, tsToMs } from '@temporalio/common/lib/time.js'
import { parse, stringify } from 'yaml'
import { useEnvironment } from '../../test/support/environment.ts'
import { longhaul } from '../../test/support/command-line.ts'
import { eventually } from '../../test/support/hang.ts'
import { connectToOwnNamespace, needsServer } from '../../test/support/own-namespace.ts'
import { createDirectoryStore } from '../adapters/artifacts/directory-store.ts'
import { pushedRecipes } from '../adapters/recipes/pushed-recipes.ts'
import { faultOfCron } from './schedule-settings.ts'
import {
  backfillSchedule,
  createSchedule,
  deleteSchedule,
  listSchedules,
  type LonghaulConnection,
  triggerSchedule,
} from './index.ts'

useEnvironment({ after })
let connection: LonghaulConnection
let directory: string

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'longhaul-schedules-'))
  if (needsServer !== false) return
  connection = await connectToOwnNamespace('schedules-test')
  process.env['LONGHAUL_NAMESPACE'] = connection.namespace
})
after(async () => {
  await connection?.close()
  await rm(directory, { recursive: true })
})

async function write(name: string, text: string): Promise<string> {
  const path = join(directory, name)
  await writeFile(path, text)
  return path
}

const recentOf = async (id: string): Promise<string[]> => {
  const { recentActions } = (await connection.client.schedule.getHandle(id).describe()).info
  return recentActions.map(({ action }) => action.workflow.workflowId)
}

async function inputOf(workflowId: string): Promise<unknown> {
  const { events } = await connection.client.workflow.getHandle(workflowId).fetchHistory()
  const [payload] = events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads ?? []
  return JSON.parse(Buffer.from(payload?.data ?? []).toString('utf8')) as unknown
}

test('a file of schedules is shown, created, left alone, changed with its difference and pruned', {
  skip: needsServer,
}, async () => {
  const file = await write(
    'schedules.yaml',
    'schedules:\n  one: { recipe: mini, cron: 0 1 * * * }\n  two: { recipe: nightly, policy: base, paused: true }\n',
  )
  const apply = async (...options: string[]): Promise<string> => {
    const { exitCode, stdout, stderr } = await longhaul('schedule', 'apply', file, ...options)
    assert.equal(exitCode, 0, stderr)
    return stdout
  }
  assert.match(await apply('--dry-run'), /^would be created one: evaluate mini, 0 1 .*\nwould be created two: /ms)
  assert.deepEqual(await listSchedules({ connection }), [])
  assert.match(await apply(), /^created one: [^]*^created two: /m)
  assert.match(await apply(), /^unchanged one: [^]*^unchanged two: /m)
  // The server's list lags by a moment.
  await eventually(async () => {
    const made = (await listSchedules({ connection })).map(({ id, paused, settings }) => [id, paused, settings?.policy])
    assert.deepEqual(made, [
      ['one', false, undefined],
      ['two', true, 'base'],
    ])
  })

  await write('schedules.yaml', 'schedules:\n  two: { recipe: nightly, timezone: Europe/Berlin, paused: false }\n')
  const shown = await apply('--dry-run', '--prune')
  assert.match(shown, /^would be updated two: /m)
  for (const line of [
    'policy: base → none',
    'timezone: UTC → Europe/Berlin',
    'paused: true → false',
    'would be deleted one',
  ]) {
    assert.ok(shown.includes(line), `${line} in ${shown}`)
  }
  assert.match(await apply(), /^not in the file one$/m)
  assert.match(await apply('--prune'), /^deleted one$/m)
  assert.deepEqual(
    (await listSchedules({ connection })).map(({ id, paused }) => [id, paused]),
    [['two', false]],
  )
  await deleteSchedule({ connection, id: 'two' })
})

const FAULTY: [what: string, text: string, says: RegExp][] = [
  ['an unknown key', 'schedules: { a: { recipe: mini, crno: 0 1 * * * } }', /schedules\.a \(line \d+\): .*crno/],
  ['no recipe', 'schedules: { a: {} }', /schedules\.a\.recipe/],
  ['an unknown recipe', 'schedules: { a: { recipe: minni } }', /did you mean mini/],
  ['a recipe file that is not there', 'schedules: { a: { recipe: ./none.yaml } }', /none\.yaml/],
  ['an override that the recipe refuses', 'schedules: { a: { recipe: mini, overrides: { sead: 1 } } }', /sead/],
  ['a duration that is none', 'schedules: { a: { recipe: mini, jitter: soon } }', /duration/],
  ['a policy for training', 'schedules: { a: { recipe: mini, action: train, policy: base } }', /trains/],
  ['text that is no YAML', 'schedules: [', /YAML/],
]
for (const [what, text, says] of FAULTY) {
  test(`a file of schedules with ${what} changes nothing`, { skip: needsServer }, async () => {
    const good = '  good: { recipe: mini }\n'
    const file = await write(
      'faulty.yaml',
      text.startsWith('schedules: {') ? `schedules:\n${good}  ${text.slice(13, -2)}\n` : text,
    )
    const { exitCode, stdout, stderr } = await longhaul('schedule', 'apply', file)
    assert.deepEqual([exitCode, stdout], [1, ''], stderr)
    assert.match(stderr, says)
    assert.deepEqual(await listSchedules({ connection }), [])
  })
}

test('pushes a recipe file and stores its name with overrides and policy; another text has another name', {
  skip: needsServer,
}, async (t) => {
  const mini = parse(await readFile(new URL('../../recipes/mini.yaml', import.meta.url), 'utf8')) as object
  const based = (base: string): string => stringify({ ...mini, model: { base } })
  const mine = await write('mine.yaml', `# a comment\n${based('/models/mine')}`)
  const args = ['schedule', 'create', 'mine', '--recipe', mine, '-c', 'evaluate.attempts=3', '--policy', 'base']
  useEnvironment(t, { LONGHAUL_ARTIFACTS: join(directory, 'artifacts') })
  const pushed = pushedRecipes(createDirectoryStore({ root: join(directory, 'artifacts') }))
  assert.match((await longhaul(...args, '--dry-run')).stdout, /^would be created mine: evaluate mine-[0-9a-f]{8},/)
  assert.deepEqual(await pushed.names(), [])
  const made = await longhaul(...args)
  assert.equal(made.exitCode, 0, made.stderr)
  const workflowId = await triggerSchedule({ connection, id: 'mine' })
  assert.ok(workflowId)
  const [name = ''] = await pushed.names()
  assert.match(name, /^mine-[0-9a-f]{8}$/)
  assert.equal(await pushed.read(name), based('/models/mine'))
  assert.deepEqual(await inputOf(workflowId), {
    recipe: name,
    overrides: { evaluate: { attempts: 3 } },
    policy: 'base',
    series: 'mine',
  })
  assert.match((await longhaul(...args)).stdout, /^unchanged mine/)
  await write('mine.yaml', based('/models/other'))
  assert.match((await longhaul(...args)).stdout, /^updated mine.*\n {2}recipe: mine-[0-9a-f]{8} → mine-[0-9a-f]{8}\n/)
  assert.equal((await pushed.names()).length, 2)
  const file = await write(
    'of-file.yaml',
    'schedules: { mine: { recipe: ./mine.yaml, policy: base, overrides: { evaluate: { attempts: 3 } } } }',
  )
  assert.match((await longhaul('schedule', 'apply', file)).stdout, /^unchanged mine: evaluate mine-[0-9a-f]{8}/)
  await connection.client.workflow.getHandle(workflowId).terminate('seen')
  await deleteSchedule({ connection, id: 'mine' })
})

test('pausing and resuming a schedule keeps its definition, and repeating either changes nothing', {
  skip: needsServer,
}, async () => {
  await createSchedule({ connection, id: 'held', recipe: 'nightly' })
  const say = async (what: string): Promise<string> => (await longhaul('schedule', what, 'held')).stdout
  assert.equal(await say('pause'), 'held is paused\n')
  assert.equal(await say('pause'), 'held was already paused\n')
  const again = await createSchedule({ connection, id: 'held', recipe: 'nightly' })
  assert.equal(again.kind, 'unchanged')
  assert.equal((await listSchedules({ connection }))[0]?.paused, true)
  assert.equal(await say('resume'), 'held is running on its clock\n')
  assert.equal((await longhaul('schedule', 'pause', 'absent')).exitCode, 1)
  await deleteSchedule({ connection, id: 'held' })
})

test('cron fields are read as the server reads them', { skip: needsServer }, async () => {
  const refused = [
    '61 * * * *',
    '0 25 * * *',
    '0 0 * * 8',
    '0 0 1 ja *',
    '0 0 * * 5-1',
    '1, * * * *',
    '? * * * *',
    '*/0 * * * *',
  ]
  const taken = ['*/15 0-6,20-23/2 1,15 jan-MARCH mon-fri', '0 0 29 2 *', '30 4 * * 7', '5/10 1 * sept su']
  for (const cron of [...refused, ...taken]) {
    const asked = connection.client.schedule.create({
      scheduleId: 'read-cron',
      spec: { cronExpressions: [cron] },
      action: { type: 'startWorkflow', workflowType: 'evaluate', taskQueue: 'none' },
    })
    assert.equal(
      await asked.then(
        () => 'taken',
        () => 'refused',
      ),
      faultOfCron(cron) === null ? 'taken' : 'refused',
      cron,
    )
    if (taken.includes(cron)) await connection.client.schedule.getHandle('read-cron').delete()
  }
})

test('an unknown schedule is reported with its name and where to find the names', { skip: needsServer }, async () => {
  await assert.rejects(triggerSchedule({ connection, id: 'nihgtly' }), {
    code: 'Config.NotFound',
    message: 'No schedule is called "nihgtly"; longhaul schedule list shows the existing schedules',
  })
})

test('a backfill starts two missed nights in order and names them', {
  skip: needsServer,
}, async () => {
  await createSchedule({ connection, id: 'missed', recipe: 'nightly', paused: true })
  const midnight = new Date().setUTCHours(0, 0, 0, 0) - 86_400_000
  const [from, to] = [new Date(midnight - 86_400_000), new Date(midnight + 86_400_000)]
  const due = await backfillSchedule({ connection, id: 'missed', from, to })
  assert.equal(due.length, 2)
  for (const [night, time] of due.entries()) {
    // Each at two, and up to ten minutes later.
    const late = time.getTime() - (midnight + 7_200_000 - (1 - night) * 86_400_000)
    assert.ok(late >= 0 && late <= 600_000, time.toISOString())
  }
  const [first = ''] = await eventually(async () => {
    const recent = await recentOf('missed')
    assert.equal(recent.length, 1)
    return recent
  })
  await connection.client.workflow.getHandle(first).terminate('the first night is over')
  const both = await eventually(async () => {
    const recent = await recentOf('missed')
    assert.equal(recent.length, 2)
    return recent
  })
  await connection.client.workflow.getHandle(both[1] ?? '').terminate('seen')
  await assert.rejects(backfillSchedule({ connection, id: 'missed', from: to, to: from }), /span of the past/)
  await deleteSchedule({ connection, id: 'missed' })
})

test('of the nights that are due during an open run one waits for it, and the others are skipped', {
  skip: needsServer,
}, async () => {
  await createSchedule({ connection, id: 'slow', recipe: 'nightly' })
  const handle = connection.client.schedule.getHandle('slow')
  for (let night = 0; night < 3; night++) {
    await handle.trigger('BUFFER_ONE')
    // What is due within one second is one run to the server.
    await new Promise((resolve) => setTimeout(resolve, 1_100))
  }
  const [first = ''] = await recentOf('slow')
  await connection.client.workflow.getHandle(first).terminate('over at last')
  const second = await eventually(async () => {
    const recent = await recentOf('slow')
    assert.equal(recent.length, 2)
    return recent[1] ?? ''
  })
  await connection.client.workflow.getHandle(second).terminate('over')
  // The third would start at once if it had been kept: the server is asked again after it has had the time for that.
  const marker = await triggerSchedule({ connection, id: 'slow' })
  assert.deepEqual(await recentOf('slow'), [first, second, marker])
  await connection.client.workflow.getHandle(marker ?? '').terminate('seen')
  await deleteSchedule({ connection, id: 'slow' })
})

test('the time limit of a hanging run ends it, and the next one starts', { skip: needsServer }, async () => {
  await createSchedule({ connection, id: 'stuck', recipe: 'nightly', executionTimeout: '3s' })
  const first = await triggerSchedule({ connection, id: 'stuck' })
  assert.ok(first)
  const outcome = connection.client.workflow.getHandle(first).result()
  await assert.rejects(outcome, (error) => /timed out/i.test(String((error as Error).cause ?? error)))
  const second = await triggerSchedule({ connection, id: 'stuck' })
  assert.ok(second !== null && second !== first)
  await deleteSchedule({ connection, id: 'stuck' })
})

/** Local clocks of Berlin skip 2:00–3:00 on 2027-03-28 and show it twice on 2027-10-31. */
test('a schedule outside of the hour of a clock change starts once a day at the same local time', {
  skip: needsServer,
}, async () => {
  await createSchedule({
    connection,
    id: 'berlin',
    recipe: 'nightly',
    cron: '30 4 * * *',
    timezone: 'Europe/Berlin',
    jitter: '0s',
  })
  const starts = async (from: string, to: string): Promise<string[]> => {
    const { startTime } = await connection.client.workflowService.listScheduleMatchingTimes({
      namespace: connection.namespace,
      scheduleId: 'berlin',
      startTime: msToTs(Date.parse(from)),
      endTime: msToTs(Date.parse(to)),
    })
    return (startTime ?? []).map((time) => new Date(tsToMs(time)).toISOString())
  }
  assert.deepEqual(await starts('2027-03-27T00:00:00Z', '2027-03-30T00:00:00Z'), [
    '2027-03-27T03:30:00.000Z',
    '2027-03-28T02:30:00.000Z',
    '2027-03-29T02:30:00.000Z',
  ])
  assert.deepEqual(await starts('2027-10-30T00:00:00Z', '2027-11-02T00:00:00Z'), [
    '2027-10-30T02:30:00.000Z',
    '2027-10-31T03:30:00.000Z',
    '2027-11-01T03:30:00.000Z',
  ])
  await deleteSchedule({ connection, id: 'berlin' })
})

test('a schedule of another program in the namespace is neither changed, paused, started nor deleted', {
  skip: needsServer,
}, async () => {
  const { schedule } = connection.client
  const id = 'payroll'
  const handle = await schedule.create({
    scheduleId: id,
    spec: { cronExpressions: ['0 5 1 * *'] },
    action: { type: 'startWorkflow', workflowType: 'pay', taskQueue: 'payroll', args: [] },
    state: { note: 'of the accountants' },
  })
  const span = ['--from', '2026-01-01T00:00:00Z', '--to', '2026-03-01T00:00:00Z']
  for (const words of [
    ['create', id, '--recipe', 'mini'],
    ['create', id, '--recipe', 'mini', '--dry-run'],
    ['pause', id],
    ['trigger', id],
    ['backfill', id, ...span],
    ['delete', id],
  ]) {
    const { exitCode, stderr } = await longhaul('schedule', ...words)
    assert.equal(exitCode, 1, words.join(' '))
    assert.match(stderr, /Schedule payroll belongs to another program: it starts pay on the task queue payroll/)
  }
  const { state, action, info } = await handle.describe()
  assert.deepEqual([state.note, state.paused, action.taskQueue], ['of the accountants', false, 'payroll'])
  assert.deepEqual(info.recentActions, [])
  await handle.delete()
})
