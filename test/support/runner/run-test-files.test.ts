/**
 * A test run that ends green although something failed is worse than none: it is believed. Here are the ways in which a test file
 * can fail, or run nothing, without any test of its own failing. Each must make the whole run fail.
 */
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { access, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { ReviewedSkip } from '../../reviewed-skips.ts'
import { eventually } from '../hang.ts'
import type { FileResult } from './file-result.ts'
import { findTestFiles, runTestFiles } from './run-test-files.ts'
import { summarise } from './summarise.ts'

const root = join(import.meta.dirname, '../../..')
const PASSES = "test('passes', () => {});"

/** Files that must fail, and what is said about each. */
const RED: Record<string, [code: string, said: RegExp]> = {
  'a test fails': [`${PASSES} test('bad', () => { throw new Error('bad') })`, /bad: Error: bad/],
  'an `after` of a suite throws': [
    "describe('d', () => { test('passes', () => {}); after(() => { throw new Error('after') }) })",
    /d: Error: after/,
  ],
  'an `after` of the file throws': [`${PASSES} after(() => { throw new Error('after') })`, /Error: after/],
  'a `before` throws': [
    "describe('d', () => { before(() => { throw new Error('no') }); test('passes', () => {}) })",
    /no/,
  ],
  'an `afterEach` throws': [
    "describe('d', () => { afterEach(() => { throw new Error('each') }); test('passes', () => {}) })",
    /Error: each/,
  ],
  'the body of a `describe` throws': [
    `${PASSES} describe('d', () => { test('x', () => {}); throw new Error('body') })`,
    /d: Error: body/,
  ],
  'the body of an async `describe` throws': [
    `${PASSES} describe('d', async () => { await null; throw new Error('body') })`,
    /d: Error: body/,
  ],
  'a test calls process.exit(0)': [
    `${PASSES} test('ends', () => process.exit(0)); test('never', () => { throw 1 })`,
    /no summary/,
  ],
  'a test file calls process.exit(0) while it is loaded': [`${PASSES} process.exit(0)`, /no summary/],
  'a `describe` calls process.exit(0)': [`${PASSES} describe('d', () => process.exit(0))`, /no summary/],
  'a hook calls process.exit(0)': [`${PASSES} after(() => process.exit(0))`, /no summary/],
  'a timer calls process.exit(0) between two tests': [
    `${PASSES} setTimeout(() => process.exit(0), 1); test('slow', () => new Promise((end) => setTimeout(end, 60_000)))`,
    /no summary/,
  ],
  'an exit status is set after the tests': [
    `${PASSES} process.on('exit', () => { process.exitCode = 3 })`,
    /test failed/,
  ],
  'a failure’s exit status is set back to 0': [
    "test('bad', () => { throw new Error('bad') }); process.on('exit', () => { process.exitCode = 0 })",
    /Error: bad/,
  ],
  'no test at all': ['export const x = 1', /no summary/],
  'a suite without a test': ["describe('d', () => {})", /has no test/],
  'a promise that is not awaited rejects after its test': [
    "test('passes', () => { void new Promise((_, no) => setTimeout(() => no(new Error('late')), 20)) })",
    /test failed/,
  ],
  'a promise rejects after the last hook': [
    `${PASSES} after(() => { setTimeout(() => { void Promise.reject(new Error('late')) }, 20) })`,
    /test failed/,
  ],
  'a timer throws after its test': [
    "test('passes', () => { setTimeout(() => { throw new Error('late') }, 20) })",
    /test failed/,
  ],
  'a subtest that is not awaited fails': [
    "test('p', (t) => { void t.test('sub', async () => { await null; throw new Error('sub') }) })",
    /Error: sub/,
  ],
  'a test is added by a hook, too late to run': [`${PASSES} after(() => { test('z', () => { throw 1 }) })`, /failed/],
  'an import is missing': [`import './not-there.ts'; ${PASSES}`, /test failed/],
  'the file cannot be parsed': ["test('p', () => { (((", /test failed/],
  'its process is killed amid its tests': [
    `${PASSES} test('k', () => process.kill(process.pid, 'SIGKILL'))`,
    /test failed/,
  ],
  'its process is killed after its tests': [
    `${PASSES} process.on('exit', () => process.kill(process.pid, 'SIGKILL'))`,
    /test failed/,
  ],
  'a promise never settles and nothing else runs': [
    `${PASSES} test('n', () => new Promise(() => {}))`,
    /did not end within/,
  ],
  'a handle stays open': [`${PASSES} setInterval(() => {}, 1000)`, /did not end within .*its last words: ✔ p/s],
  'a test never ends': [
    `${PASSES} test('n', () => { console.error('at the third'); return new Promise((end) => setTimeout(end, 600_000)) })`,
    /did not end within .*its last words: .*at the third/s,
  ],
  'a test that ignores TERM never ends': [
    `process.on('SIGTERM', () => {}); ${PASSES} test('n', () => new Promise((end) => setTimeout(end, 600_000)))`,
    /did not end within/,
  ],
  'a `todo` fails': [
    `${PASSES} test('t', { todo: 'later' }, () => { throw new Error('todo') })`,
    /is marked todo and fails/,
  ],
  'a `todo` passes': [`${PASSES} test('t', { todo: true }, () => {})`, /not in test\/reviewed-skips/],
  'a test is expected to fail': [
    `${PASSES} test('t', { expectFailure: true }, () => { throw 1 })`,
    /not in test\/reviewed-skips/,
  ],
  'one test is chosen by `only`': [
    `test('p', { only: true }, () => {}); test('bad', () => { throw new Error('bad') })`,
    /bad/,
  ],
  'a plan is not kept': ["test('p', (t) => { t.plan(2); t.assert.ok(1) })", /plan expected 2/],
  'a skip that was not reviewed': [
    `${PASSES} test('s', { skip: 'no time' }, () => {})`,
    /s # no time: this skip is not in/,
  ],
  'a suite is skipped': [`${PASSES} describe('d', { skip: 'no time' }, () => { test('s', () => {}) })`, /d # no time/],
  'a test skips itself': [`${PASSES} test('s', (t) => t.skip('no time'))`, /s # no time/],
}

const HANGS = Object.keys(RED).filter((title) => String(RED[title]?.[1]).includes('did not end within'))

let folder: string
const fileOf = new Map<string, string>()
const results = new Map<string, FileResult>()

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'longhaul-runner-'))
  for (const [index, [title, [code]]] of Object.entries(RED).entries()) {
    const head = "import { after, afterEach, before, describe, test } from 'node:test'"
    const file = join(folder, `case-${index}.test.mjs`)
    await writeFile(file, `${head}\nvoid [after, afterEach, before, describe]\n${code}\n`)
    fileOf.set(title, file)
  }
  const play = async (titles: string[], fileTimeoutMs: number): Promise<void> => {
    const files = titles.map((title) => fileOf.get(title) as string)
    const signal = new AbortController().signal
    const found = await runTestFiles({
      root,
      files,
      concurrency: 4,
      fileTimeoutMs,
      signal,
      graceMs: 200,
      print: () => undefined,
    })
    for (const title of titles) {
      const result = found.find(({ file }) => file === fileOf.get(title))
      if (result !== undefined) results.set(title, result)
    }
  }
  await play(
    Object.keys(RED).filter((title) => !HANGS.includes(title)),
    300_000,
  )
  await play(HANGS, 5_000)
})

after(() => rm(folder, { recursive: true, force: true }))

describe('the run fails when', () => {
  for (const [title, [, said]] of Object.entries(RED)) {
    test(title, () => {
      const result = results.get(title)
      assert.ok(result !== undefined)
      const { exitCode, failed, text } = summarise([result], [])
      assert.equal(exitCode, 1)
      assert.ok(failed >= 1)
      assert.match(text, said)
      assert.match(text.split('\n').at(-1) ?? '', /^\d+ passed, [1-9]\d* failed/)
    })
  }
})

test('a file without failures and one with a failure both count, and the totals add up', () => {
  const one = (file: string, passed: number, failures: number): FileResult => ({
    file,
    seconds: passed,
    passed,
    failures: Array.from({ length: failures }, () => ({ test: 't', error: 'e' })),
    skips: [],
  })
  const { text, exitCode } = summarise([one('a', 3, 0), one('b', 2, 1)], [])
  assert.equal(exitCode, 1)
  assert.ok(text.endsWith('\n5 passed, 1 failed'))
  assert.equal(summarise([], []).exitCode, 1)
  assert.equal(summarise([one('a', 3, 0)], []).exitCode, 0)
})

test('the summary shows both ends of a long failure', () => {
  const error = `Traceback (most recent call last):\n${'  File "x"\n'.repeat(200)}SIGABRT`
  const { text } = summarise(
    [{ file: 'a', seconds: 1, passed: 0, failures: [{ test: 'ranks', error }], skips: [] }],
    [],
  )
  assert.match(text, /ranks: Traceback .* … .* SIGABRT$/mu)
})

test('a reviewed skip is printed with its reason and review and passes; another reason does not', () => {
  const reviewed: ReviewedSkip[] = [
    { file: 'a.test.ts', tests: ['needs a disk'], reason: /^no xfs/, why: 'not everywhere' },
  ]
  const result = (reason: string): FileResult => ({
    file: 'a.test.ts',
    seconds: 1,
    passed: 1,
    failures: [],
    skips: [{ test: 'needs a disk', reason }],
  })
  const { exitCode, text } = summarise([result('no xfs here')], reviewed)
  assert.equal(exitCode, 0)
  assert.match(text, /a\.test\.ts: needs a disk # no xfs here: not everywhere\n/)
  assert.ok(text.endsWith('\n1 passed, 0 failed, 1 skipped'))
  assert.equal(summarise([result('no time')], reviewed).exitCode, 1)
  assert.equal(summarise([{ ...result('no xfs here'), file: 'b.test.ts' }], reviewed).exitCode, 1)
})

test('the CPU time of a file includes its child processes, and the busiest files are printed first', {
  skip: process.platform === 'linux' ? false : 'looks into /proc',
}, async () => {
  const burn = 'while (process.cpuUsage().user < 400_000);'
  const file = join(folder, 'busy.test.mjs')
  await writeFile(
    file,
    `import { spawnSync } from 'node:child_process'
    import { test } from 'node:test'
    test('busy', () => void spawnSync(process.execPath, ['-e', '${burn}']))`,
  )
  const signal = new AbortController().signal
  const input = { root, files: [file], concurrency: 1, fileTimeoutMs: 300_000, signal, print: () => undefined }
  const [busy] = await runTestFiles(input)
  assert.ok((busy?.cpuSeconds ?? 0) > 0.4, `${busy?.cpuSeconds} s`)
  const one = (name: string, cpuSeconds: number): FileResult => ({
    file: name,
    seconds: 1,
    cpuSeconds,
    passed: 1,
    failures: [],
    skips: [],
  })
  assert.match(summarise([one('a', 1.5), one('b', 20)], []).text, /\n +20\.0 s  b\n +1\.5 s  a\n +21\.5 s  all 2\n/)
})

test('a pattern without a match is an error', async () => {
  await assert.rejects(findTestFiles(root, ['test/support/runner/*.test.ts', 'test/no-such.test.ts']), /no-such/)
  assert.ok(
    (await findTestFiles(root, ['test/support/runner/*.test.ts'])).includes(
      'test/support/runner/run-test-files.test.ts',
    ),
  )
})

/** Through the command itself, so that its exit status is the one that CI sees. */
describe('npm test ends with 1 and a closing line that says so', { concurrency: 2 }, () => {
  const FALSE_GREENS = [
    'an `after` of a suite throws',
    'the body of a `describe` throws',
    'a test calls process.exit(0)',
    'a skip that was not reviewed',
  ]
  for (const title of FALSE_GREENS) {
    test(title, async () => {
      const { code, stdout } = await runCommandLine([fileOf.get(title) as string])
      assert.equal(code, 1)
      assert.match(stdout.trimEnd().split('\n').at(-1) ?? '', /^\d+ passed, [1-9]\d* failed$/)
    })
  }

  test('a passing file ends with 0, and with 1 beside a failing one', async () => {
    const good = join(folder, 'good.test.mjs')
    await writeFile(good, `import { test } from 'node:test'\n${PASSES}\n`)
    const alone = await runCommandLine([good])
    assert.deepEqual([alone.code, alone.stdout.trimEnd().split('\n').at(-1)], [0, '1 passed, 0 failed'])
    const beside = await runCommandLine([good, fileOf.get('a test fails') as string])
    assert.deepEqual([beside.code, beside.stdout.trimEnd().split('\n').at(-1)], [1, '2 passed, 1 failed'])
  })

  test('a mount that a test leaves is removed and reported as a failure of the run', {
    skip: process.getuid?.() === 0 ? false : 'needs root: mounts a file system',
  }, async () => {
    const file = join(folder, 'mounts.test.mjs')
    await writeFile(
      file,
      `import { execFileSync } from 'node:child_process'
      import { mkdtempSync } from 'node:fs'
      import { tmpdir } from 'node:os'
      import { join } from 'node:path'
      import { test } from 'node:test'
      test('mounts', () => execFileSync('mount', ['-t', 'tmpfs', 'left', mkdtempSync(join(tmpdir(), 'left behind-'))]))`,
    )
    const { code, stdout } = await runCommandLine([file])
    assert.equal(code, 1)
    assert.match(stdout, /npm test: \(the file\): a test left a mount at .*\/left behind-\w+\n1 passed, 1 failed\n$/)
    const left = /mount at (.*)\n/.exec(stdout)?.[1] ?? ''
    assert.ok(!existsSync(left), left)
  })

  const command = [process.execPath, join(root, 'scripts/bootstrap.mjs'), 'test']
  /**
   * npm passes a signal on to the shell that it starts for a script. A shell that starts the script's program as a child ends by the signal
   * and leaves that child, with test files and stack below it, behind: the scripts of package.json take the shell's place (`exec`).
   */
  const ENDINGS: Record<string, { starts: string[]; isGroup: boolean }> = {
    '`timeout` ends the whole group, and each starter passes the signal on': { starts: command, isGroup: true },
    '`kill` ends npm alone, which another program started': {
      starts: ['nice', '-n', '1', 'npm', 'test', '--'],
      isGroup: false,
    },
  }
  for (const [title, { starts, isGroup }] of Object.entries(ENDINGS)) {
    test(`${title}: everything that was started is stopped`, async () => {
      const home = await mkdtemp(join(folder, 'interrupted-'))
      const begun = join(home, 'begun')
      const file = join(folder, `interrupted-${isGroup ? 'group' : 'npm'}.test.mjs`)
      await writeFile(
        file,
        `import { writeFileSync } from 'node:fs'
        import { test } from 'node:test'
        test('runs', () => { writeFileSync(${JSON.stringify(begun)}, ''); return new Promise((end) => setTimeout(end, 60_000)) })`,
      )
      const [program, ...args] = [...starts, '--no-stack', file]
      const env = { ...process.env, TMPDIR: home }
      const child = spawn(program, args, { cwd: root, env, detached: true, stdio: 'ignore' })
      const ended = once(child, 'exit')
      await eventually(() => access(begun))
      process.kill((isGroup ? -1 : 1) * (child.pid ?? 0), 'SIGTERM')
      assert.deepEqual(await ended, [130, null])
      // npm keeps what it has compiled, here unless a variable names another place.
      const left = (await readdir(home)).filter((name) => name !== 'node-compile-cache')
      assert.deepEqual(left, ['begun'])
    })
  }

  test('every script of package.json replaces the shell that npm starts for it', async () => {
    const { scripts } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { scripts: object }
    const staying = Object.entries(scripts).filter(([, line]) => !String(line).startsWith('exec '))
    assert.deepEqual([Object.keys(scripts).includes('test'), staying], [true, []])
  })

  test('a run without tests ends with 2', async () => {
    assert.equal((await runCommandLine([join(folder, 'no-such.test.mjs')])).code, 2)
  })

  test('refuses options of the environment that choose tests', async () => {
    const env = { NODE_OPTIONS: '--test-name-pattern=passes' }
    assert.equal((await runCommandLine([fileOf.get('a test fails') as string], env)).code, 2)
  })
})

function runCommandLine(files: string[], env: NodeJS.ProcessEnv = {}): Promise<{ code: number; stdout: string }> {
  return new Promise((resolve) => {
    const args = [join(root, 'test/run.ts'), '--no-stack', ...files]
    const child = execFile(process.execPath, args, { cwd: root, env: { ...process.env, ...env } }, (_error, stdout) =>
      resolve({ code: child.exitCode ?? -1, stdout }),
    )
  })
}
