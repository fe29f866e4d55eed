import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createFakeClock, type FakeClock } from '../../../test/support/fake-clock.ts'
import type { RolloutReport, RunProgress, RunWork, WorkCount } from '../../client/index.ts'
import type { Console, Terminal } from '../output/console.ts'
import { createProgressPrinter } from './follow-run.ts'

const PROGRESS: RunProgress = {
  run: 'demo-a',
  phase: 'gating 128 tasks of train',
  paused: false,
  pause: null,
  limits: { concurrency: null },
  rollout: null,
  stopAfterIteration: null,
  scores: [],
  waitingFor: null,
}
const NOTHING: RunWork = { count: null, rollout: null, activities: [] }

interface Shown {
  progress?: Partial<RunProgress>
  work?: Partial<RunWork>
  episodes?: { open: number; ended: number }
}

interface Written {
  err: string[]
  records: Record<string, unknown>[]
  /** What a terminal shows at last, and all that was written to it. */
  screen: string[]
  raw: string
}

/** A screen that knows what the display uses: new lines, up, and erase to the end. */
function createScreen({ columns = 80, rows = 24 }: { columns?: number; rows?: number } = {}) {
  const lines: string[] = []
  let raw = ''
  const write = (text: string): void => {
    raw += text
    const up = new RegExp(`^\\r${String.fromCharCode(27)}\\[(\\d+)A${String.fromCharCode(27)}\\[J`).exec(text)
    if (up !== null) lines.splice(lines.length - Number(up[1]))
    const rest = up === null ? text : text.slice(up[0].length)
    lines.push(...rest.split('\n').slice(0, -1))
  }
  const terminal: Terminal = { write, columns: () => columns, rows: () => rows }
  return { terminal, lines, raw: () => raw }
}

interface PrinterOptions {
  on?: 'log' | 'terminal' | 'json'
  columns?: number
  rows?: number
}

function printer({ on = 'log', columns = 80, rows = 24 }: PrinterOptions = {}) {
  const clock: FakeClock = createFakeClock()
  const err: string[] = []
  const records: Record<string, unknown>[] = []
  const screen = createScreen({ columns, rows })
  const console: Console = {
    out: () => assert.fail('progress is no result'),
    err: (text) => {
      err.push(text)
      if (on === 'terminal') screen.terminal.write(`${text}\n`)
    },
    record: (value) => records.push(JSON.parse(JSON.stringify(value)) as Record<string, unknown>),
    command: () => assert.fail('no command of a CI system'),
    terminal: on === 'terminal' ? screen.terminal : null,
  }
  const made = createProgressPrinter({ console, workflowId: 'train/demo-a', json: on === 'json', clock })
  return {
    ...made,
    clock,
    see: ({ progress, work, episodes }: Shown): void =>
      made.show({
        kind: 'progress',
        at: new Date(clock.now()),
        progress: { ...PROGRESS, ...progress },
        episodes: episodes ?? null,
        work: { ...NOTHING, ...work },
      }),
    written: (): Written => ({ err, records, screen: screen.lines, raw: screen.raw() }),
  }
}

const gated = (done: number, failed = 0): { work: Partial<RunWork> } => {
  const count: WorkCount = { unit: 'tasks', done, total: 128, failed }
  return { work: { count } }
}

const rolledOut = (clock: FakeClock, changes: Partial<RolloutReport> = {}): RolloutReport => ({
  workflowId: 'train/demo-a/eval/base/0000',
  stage: 'eval-base',
  iteration: 0,
  at: new Date(clock.now()).toISOString(),
  groups: 40,
  tasks: 128,
  episodes: 41,
  resolved: 12,
  endings: { submitted: 39, infra: 2 },
  score: { mean: 0.3125, low: 0.231, high: 0.393, tasks: 40 },
  eta: new Date(clock.now() + 8 * 60_000).toISOString(),
  slowest: [{ task: 'synthetic__eval-000007', since: new Date(clock.now() - 200_000).toISOString() }],
  errors: [{ task: 'synthetic__eval-000003', failure: 'Sandbox.Lost', at: '2026-11-23T00:00:00Z' }],
  failures: { 'Sandbox.Lost': 2 },
  ...changes,
})

test('a gate of 128 tasks of which nothing is heard: a log gets how far it is every 30 seconds', () => {
  const { see, clock, finish, written } = printer()
  see(gated(3))
  clock.pass(180_000)
  finish()
  const { err } = written()
  assert.equal(err.length, 7)
  for (const line of err) assert.match(line, /gating 128 tasks of train · 3 of 128 tasks/)
  assert.match(err[1] ?? '', /^ {2}0:30 {2}/)
  assert.match(err.at(-1) ?? '', /nothing new for 3 min/)
})

test('not one answer yet: a log says that within 30 seconds, too', () => {
  const { clock, written } = printer()
  clock.pass(31_000)
  assert.match(written().err.join('\n'), /asking the run how far it is/)
})

test('a count that changes every two seconds: a log gets it every ten, and a new phase at once', () => {
  const { see, clock, written } = printer()
  for (let done = 0; done < 30; done++) {
    see(gated(done))
    clock.pass(2_000)
  }
  assert.equal(written().err.length, 7)
  see({ progress: { phase: 'publishing the base policy' } })
  assert.equal(written().err.length, 8)
  assert.match(written().err.at(-1) ?? '', /publishing the base policy/)
})

test('tasks gated at a steady pace: the pace and the end are computed from what was seen', () => {
  const { see, clock, written } = printer()
  for (let done = 0; done <= 8; done++) {
    see(gated(done, 1))
    clock.pass(15_000)
  }
  // 4 a minute, 120 tasks left.
  assert.match(written().err.at(-1) ?? '', /8 of 128 tasks, 1 refused · 3\.\d a minute, ready in about 3\d min/)
})

test('a run that was joined: what was done before is no pace', () => {
  const { see, clock, written } = printer()
  see(gated(100))
  clock.pass(60_000)
  assert.doesNotMatch(written().err.join('\n'), /a minute|ready in/)
})

test('an open rollout: tasks, episodes done, open and lost, score so far and when it is ready', () => {
  const { see, clock, written } = printer()
  const phase = 'evaluating base (v000001)'
  see({ progress: { phase }, work: { rollout: rolledOut(clock, { groups: 38 }) }, episodes: { open: 16, ended: 40 } })
  clock.pass(20_000)
  see({ progress: { phase }, work: { rollout: rolledOut(clock) }, episodes: { open: 16, ended: 41 } })
  const line = written().err.at(-1) ?? ''
  assert.match(
    line,
    /evaluating base \(v000001\) · 40 of 128 tasks, 2 episodes lost · episodes 41 done, 16 open, 2 lost/,
  )
  assert.match(line, /6\.0 a minute, ready in about 8 min · pass@1 so far 0\.313 \(0\.231 to 0\.393, n = 40\)/)
})

test('a training job: its phase, step and loss, and how long it has run', () => {
  const { see, clock, written } = printer()
  const job = { activity: 'runTrainingJob', isStarted: true, doing: 'training' }
  const facts = { phase: 'train', globalStep: 3, loss: 0.41235 }
  see({
    progress: { phase: 'reinforcing, dapo-1' },
    work: { activities: [{ ...job, facts, sinceMs: clock.now() - 95_000 }] },
  })
  assert.match(
    written().err.at(-1) ?? '',
    /reinforcing, dapo-1 · runTrainingJob: training \(train, step 3, loss 0\.412\) for 1 min/,
  )
})

test('work that no worker has taken is queued, and the log says for how long', () => {
  const { see, clock, written } = printer()
  const activities = [
    { activity: 'gateTask', isStarted: false, doing: null, facts: null, sinceMs: clock.now() - 45_000 },
  ]
  see({ work: { activities } })
  assert.match(written().err.at(-1) ?? '', /gateTask queued for 45 s/)
})

test('the server is away: one line at once, and further ones while it stays away', () => {
  const { see, show, clock, written } = printer()
  see(gated(3))
  show({ kind: 'unreachable', at: new Date(clock.now()), message: 'connection refused' })
  assert.match(
    written().err.at(-1) ?? '',
    /the Temporal server does not answer; the run goes on \(connection refused\)/,
  )
  clock.pass(61_000)
  assert.equal(written().err.length, 4)
})

test('on a terminal a block is redrawn in place, with a bar, and it keeps what a note says', () => {
  const { see, note, clock, finish, written } = printer({ on: 'terminal' })
  see({
    progress: { phase: 'evaluating base' },
    work: { rollout: rolledOut(clock) },
    episodes: { open: 16, ended: 41 },
  })
  clock.pass(3_000)
  note('waits on engine unix:///run/docker.sock')
  clock.pass(3_000)
  finish()
  assert.deepEqual(written().screen, [
    '  0:03  waits on engine unix:///run/docker.sock',
    '0:06      train/demo-a · evaluating base',
    'done      [######--------------] · 40 of 128 tasks, 2 episodes lost',
    'played    episodes 41 done, 16 open, 2 lost',
    'score     pass@1 so far 0.313 (0.231 to 0.393, n = 40)',
    'slowest   synthetic__eval-000007 3 min',
    'error     Sandbox.Lost at synthetic__eval-000003',
  ])
})

test('what blocks the run stands in the block until it goes on', () => {
  const { see, blocked, clock, written } = printer({ on: 'terminal' })
  see(gated(3))
  blocked(['host of this machine (waiting for a slot) since 12:00'])
  clock.pass(1_000)
  assert.match(written().screen.join('\n'), /waits on {2}host of this machine/)
  blocked([])
  clock.pass(1_000)
  assert.doesNotMatch(written().screen.join('\n'), /waits on/)
})

test('a small terminal: no line wraps and nothing scrolls', () => {
  const { see, clock, written } = printer({ on: 'terminal', columns: 40, rows: 4 })
  see({ work: { rollout: rolledOut(clock) }, episodes: { open: 16, ended: 41 } })
  clock.pass(5_000)
  const { screen } = written()
  assert.equal(screen.length, 3)
  for (const line of screen) assert.ok(line.length < 40, line)
})

test('a task whose id holds terminal sequences: they are shown, never sent', () => {
  const escape = String.fromCharCode(27)
  const task = `evil${escape}[2J${escape}]0;title${String.fromCharCode(7)}\u202e`
  for (const on of ['log', 'terminal'] as const) {
    const { see, clock, finish, written } = printer({ on })
    const slowest = [{ task, since: new Date(clock.now()).toISOString() }]
    const errors = [{ task, failure: 'Sandbox.Lost', at: '' }]
    see({ progress: { phase: `gating ${task}` }, work: { rollout: rolledOut(clock, { slowest, errors }) } })
    clock.pass(2_000)
    finish()
    const { err, raw } = written()
    assert.doesNotMatch(err.join('\n') + raw, /\[2J|]0;|\u202e/)
  }
})

test('with --json a record comes for each change, and one every 30 seconds where nothing changes', () => {
  const { see, clock, finish, written } = printer({ on: 'json' })
  see(gated(3))
  clock.pass(95_000)
  finish()
  clock.pass(95_000)
  const { records, err } = written()
  assert.deepEqual(err, [])
  assert.equal(records.length, 4)
  assert.deepEqual(
    records.map(({ event, work }) => [event, (work as RunWork).count?.done]),
    Array.from({ length: 4 }, () => ['progress', 3]),
  )
})

test('a score is said once, when it is known', () => {
  const { see, clock, written } = printer()
  const scores = [{ name: 'base', policy: 'v1', passAt1: 0.5, sem: 0.1, tasks: 8, attempts: 1 }]
  see({ progress: { scores } })
  clock.pass(60_000)
  see({ progress: { scores } })
  const said = written().err.filter((line) => line.includes('base: pass@1 0.500 ± 0.100 (n = 8, k = 1)'))
  assert.equal(said.length, 1)
})
