/**
 * The GPU's machine is lent for minutes, and taken away in the middle of a piece. A measurement that began again from its first piece would
 * never end; one that kept the pieces of other code, or of another device, would publish figures that belong to neither.
 */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { exitCodeOf, type PieceRecord, type PiecesState } from '../../bench/support/gpu/pieces.ts'
import { judgeRun } from '../../bench/support/gpu/live-run.ts'
import { judgeAgreement, judgeMemory, LIMITS } from '../../bench/support/gpu/trainer-pieces.ts'
import { HANG_MS } from '../support/hang.ts'

const PROGRAM = join(import.meta.dirname, '../support/gpu-bench/pieces-program.ts')
const GPU = '1 × NVIDIA H200'

describe('a measurement in pieces', () => {
  test('a measurement that was killed in its second piece continues there and does not repeat the first', async (t) => {
    const world = makeWorld(t)
    world.set('hang')
    const child = spawn(process.execPath, [PROGRAM, world.directory, 'code-1', GPU], { stdio: 'ignore' })
    for (const deadline = Date.now() + HANG_MS; world.ran().length < 2; await sleep(50))
      assert.ok(Date.now() < deadline)
    child.kill('SIGKILL')
    await once(child, 'exit')
    assert.deepEqual(Object.keys(world.state().pieces), ['one'])
    world.unset('hang')
    const { status, stdout } = world.call('code-1')
    assert.equal(status, 0, stdout)
    assert.deepEqual(world.ran(), ['one', 'two', 'two', 'three', 'four'])
    assert.match(stdout, /kept {4}one \(20/)
    assert.equal(world.call('code-1').status, 0)
    assert.equal(world.ran().length, 5, 'nothing is repeated')
  })

  test('a failing piece is named, its dependants are skipped, and the next call retries it', (t) => {
    const world = makeWorld(t)
    world.set('fail')
    const first = world.call('code-1')
    assert.equal(first.status, 1, first.stdout)
    assert.match(first.stdout, /FAILED {2}three after .*\n +the device fell off the bus/)
    assert.match(first.stdout, /left {4}four: three has not ended/)
    world.unset('fail')
    assert.equal(world.call('code-1').status, 0)
    assert.deepEqual(world.ran(), ['one', 'two', 'three', 'three', 'four'])
  })

  test('a piece over its time limit is ended and named, and the others continue', (t) => {
    const world = makeWorld(t)
    world.set('hang')
    world.set('short')
    const { status, stdout } = world.call('code-1')
    assert.equal(status, 1)
    assert.match(stdout, /FAILED {2}two after .*\n +it took longer than 0\.005 minutes/)
    assert.deepEqual(world.ran(), ['one', 'two', 'three', 'four'])
  })

  for (const [what, code, device] of [
    ['other code', 'code-2', GPU],
    ['another device', 'code-1', 'no GPU: dry'],
  ] as const) {
    test(`pieces of ${what} are invalid: all are measured again, and the old ones are kept aside`, (t) => {
      const world = makeWorld(t)
      assert.equal(world.call('code-1').status, 0)
      const { status, stdout } = world.call(code, device)
      assert.equal(status, 0, stdout)
      assert.match(stdout, new RegExp(`set aside 4 pieces of ${what}`))
      assert.equal(world.ran().length, 8)
      assert.deepEqual(world.state().key, { codeHash: code, device })
      assert.equal(readdirSync(world.directory).filter((name) => name.startsWith('pieces-')).length, 1)
    })
  }

  test('a violated limit ends with 1 although every piece ended, and is stored with its piece', (t) => {
    const world = makeWorld(t)
    world.set('break')
    assert.equal(world.call('code-1').status, 1)
    world.unset('break')
    const again = world.call('code-1')
    assert.equal(again.status, 1, 'the figure was measured')
    assert.equal(world.ran().length, 4)
  })

  test('of two calls with one state the second is refused before it measures', async (t) => {
    const world = makeWorld(t)
    world.set('hang')
    const child = spawn(process.execPath, [PROGRAM, world.directory, 'code-1', GPU], { stdio: 'ignore' })
    t.after(() => child.kill('SIGKILL'))
    for (const deadline = Date.now() + HANG_MS; world.ran().length < 2; await sleep(50))
      assert.ok(Date.now() < deadline)
    const { status, stderr } = world.call('code-1')
    assert.notEqual(status, 0)
    assert.match(stderr, /another --state/)
    assert.equal(world.ran().length, 2)
  })

  test('ends with 2 when nothing was compared, 3 when pieces are left, and 1 for a failure before either', () => {
    const done = (compared: number): PieceRecord => ({
      startedAt: '',
      seconds: 1,
      status: 'done',
      compared,
      violations: [],
      facts: {},
    })
    const failed: PieceRecord = { startedAt: '', seconds: 1, status: 'failed', error: 'x' }
    const of = (pieces: Record<string, PieceRecord>, left: string[] = []): number =>
      exitCodeOf({ state: { schema: 'longhaul.gpu-pieces/1', key: { codeHash: '', device: '' }, pieces }, left }, [
        'a',
        'b',
      ])
    assert.equal(of({ a: done(0), b: done(0) }), 2)
    assert.equal(of({ a: done(0), b: done(1) }), 0)
    assert.equal(of({ a: done(1) }, ['b']), 3)
    assert.equal(of({ a: failed }, ['b']), 1)
  })
})

describe('results of a piece', () => {
  const layouts = {
    one: { device: 'cpu', compute: 'float32' },
    other: { device: 'cuda', compute: 'bfloat16' },
  } as const
  const difference = { compared: 100, median: 1e-4, p99: 4e-3, max: 2e-2, spread: 0.5, gradient: 1e-3 }
  const judge = (changes: Partial<typeof difference>) =>
    judgeAgreement({ difference: { ...difference, ...changes } }, LIMITS.bfloat16, layouts)

  test('log-probabilities and gradients agree within the limits only, and never when they are no number', () => {
    assert.deepEqual(judge({}).violations, [])
    assert.match(judge({ p99: 6e-3 }).violations.join(), /p99 is 6\.00e-3, at most 0\.005/)
    assert.match(judge({ gradient: 0.03 }).violations.join(), /gradient/)
    assert.equal(judge({ p99: Number.NaN }).violations.length, 1)
  })

  test('a model that gives every token the same probability counts as no comparison', () => {
    assert.throws(() => judge({ spread: 1e-3 }), /that differ/)
  })

  test('a peak ten percent off the planner is reported in both directions', () => {
    const at = (peak: number) =>
      judgeMemory({ peak_bytes: peak, predicted_without_reserve_bytes: 100 }, {}).violations.length
    assert.deepEqual([at(100), at(108), at(93), at(120), at(85)], [0, 0, 0, 1, 1])
  })

  test('a finished run published three policies, and its engine slept during the training', () => {
    const stage = (name: string) => ({ name, policy: name, passAt1: 0.5, sem: 0, tasks: 1, attempts: 1 })
    const stages = ['base', 'rft', 'rl'].map(stage)
    const violations = (ended: (typeof stages)[number][], enginesStarted: number, isLive: boolean) =>
      judgeRun({ ended: { stages: ended }, enginesStarted, isLive }).violations
    assert.deepEqual(violations(stages, 1, true), [])
    assert.match(violations(stages, 4, true).join(), /started 4 times: it did not sleep/)
    assert.deepEqual(violations(stages, 4, false), [], 'the embedded server is ended and started')
    assert.match(violations(stages.slice(0, 2), 1, true).join(), /2 policies/)
  })
})

function makeWorld(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'longhaul-pieces-'))
  t.after(() => rmSync(directory, { recursive: true, force: true }))
  const path = (name: string): string => join(directory, name)
  return {
    directory,
    set: (name: string) => writeFileSync(path(name), ''),
    unset: (name: string) => rmSync(path(name)),
    ran(): string[] {
      try {
        return readFileSync(path('ran'), 'utf8').trim().split('\n')
      } catch {
        return []
      }
    },
    state: () => JSON.parse(readFileSync(path('pieces.json'), 'utf8')) as PiecesState,
    call: (code: string, device: string = GPU) =>
      spawnSync(process.execPath, [PROGRAM, directory, code, device], { encoding: 'utf8', timeout: HANG_MS }),
  }
}
