import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile, symlink } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { changeEnvironment, useEnvironment, withoutStack } from '../../test/support/environment.ts'
import { listenOnLoopback } from '../../test/support/loopback.ts'
import type { RunOutcome } from '../client/index.ts'
import { FAILURE_CODES, type FailureCode } from '../contracts/failure-codes.ts'
import type { GradePredictionsResult, TrainAgentResult } from '../contracts/workflows.types.ts'
import { reportTraining } from './commands/train.ts'
import { openStoreIfThere } from './local-stack.ts'
import { reportGrading } from './output/show-report.ts'
import type { Console } from './output/console.ts'
import { combineExitCodes, EXIT, exitCodeOfFailure, exitCodeOfOutcome } from './output/exit-codes.ts'
import { parseSettings } from './arguments/recipe-argument.ts'
import { runCli } from './run-cli.ts'
import { judgeThreshold, parseThreshold } from './arguments/evaluation-argument.ts'

async function longhaul(...args: string[]): Promise<{ exitCode: number; stdout: string; stderr: string }> {
  let [stdout, stderr] = ['', '']
  const line = (text: string): string => (text.endsWith('\n') ? text : `${text}\n`)
  const console: Console = {
    out: (text) => void (stdout += line(text)),
    err: (text) => void (stderr += line(text)),
    record: (value) => void (stdout += `${JSON.stringify(value)}\n`),
    command: (line) => void (stderr += `${line}\n`),
    terminal: null,
  }
  return { exitCode: await runCli({ args, console }), stdout, stderr }
}

const SILENT: Console = { out() {}, err() {}, record() {}, command() {}, terminal: null }

test('exit codes of outcomes: done 0, the recipe’s fault 1, everything that used the machines 2', () => {
  const table: [RunOutcome<unknown>, number][] = [
    [{ status: 'completed', result: null }, 0],
    [{ status: 'failed', code: 'Config.Invalid', message: '' }, 1],
    [{ status: 'failed', code: 'Config.NotFound', message: '' }, 1],
    [{ status: 'failed', code: 'Config.NotFound', message: '', hasPlayed: false }, 1],
    [{ status: 'failed', code: 'Config.NotFound', message: '', hasPlayed: true }, 2],
    [{ status: 'failed', code: 'Run.RecipeConflict', message: '' }, 1],
    [{ status: 'failed', code: 'Task.Invalid', message: '', hasPlayed: false }, 1],
    [{ status: 'failed', code: 'Task.Invalid', message: '', hasPlayed: true }, 2],
    [{ status: 'failed', code: 'Suite.Overlap', message: '', hasPlayed: false }, 1],
    [{ status: 'failed', code: 'Task.GateFailed', message: '' }, 2],
    [{ status: 'failed', code: 'Trainer.Diverged', message: '' }, 2],
    [{ status: 'failed', code: 'Unexpected', message: '' }, 2],
    [{ status: 'cancelled' }, 2],
    [{ status: 'terminated', message: '' }, 2],
    [{ status: 'timed-out', message: '' }, 2],
  ]
  for (const [outcome, exitCode] of table) assert.equal(exitCodeOfOutcome(outcome), exitCode, JSON.stringify(outcome))
})

test('every failure code ends the command with 1 (the user’s) or 2 (ours)', () => {
  for (const code of Object.keys(FAILURE_CODES) as FailureCode[]) {
    assert.equal(exitCodeOfFailure(code), FAILURE_CODES[code].countsAs === 'user' ? 1 : 2)
  }
})

/** Another stack may listen at Temporal's default address: a run that is started there is not of the stack that was named. */
test('a stack is named that is not up: nothing is asked of the default address', async (t) => {
  const home = await mkdtemp(join(tmpdir(), 'longhaul-no-stack-'))
  t.after(() => rm(home, { recursive: true }))
  useEnvironment(t, { ...withoutStack(), LONGHAUL_STACK: 'not-up', LONGHAUL_HOME: home })
  const { exitCode, stderr } = await longhaul('run', 'list')
  assert.equal(exitCode, 2)
  assert.match(
    stderr,
    /Temporal\.Unreachable: The stack not-up, which LONGHAUL_STACK names, is not up: start it with longhaul up/,
  )
})

/** The home of several machines is often one. Temporal's default address of this machine is then not that of the stack. */
test('the stack of this home runs on another machine: the command names it and asks nothing of the default address', async (t) => {
  const home = await mkdtemp(join(tmpdir(), 'longhaul-shared-'))
  t.after(() => rm(home, { recursive: true }))
  useEnvironment(t, { ...withoutStack(), LONGHAUL_HOME: home })
  const record = { machine: { host: 'login-2', bootId: 'of that one', pidNamespace: 'pid:[1]' }, services: [] }
  await mkdir(join(home, 'stacks/default'), { recursive: true })
  await writeFile(join(home, 'stacks/default/stack.json'), JSON.stringify(record))
  const { exitCode, stderr } = await longhaul('run', 'list')
  assert.equal(exitCode, 2)
  assert.match(
    stderr,
    /Temporal\.Unreachable: .* runs on login-2 \(last sign of life \d+ s ago\): run the command there/,
  )
})

test('several exit codes: an interrupt wins, else the lowest that is not 0', () => {
  assert.equal(combineExitCodes([]), 0)
  assert.equal(combineExitCodes([EXIT.ok, EXIT.threshold, EXIT.infra]), 2)
  assert.equal(combineExitCodes([EXIT.threshold]), 3)
  assert.equal(combineExitCodes([EXIT.usage, EXIT.interrupted]), 130)
})

test('help goes to stdout with 0 and has examples; every command has help', async () => {
  const { exitCode, stdout, stderr } = await longhaul('--help')
  assert.deepEqual([exitCode, stderr], [0, ''])
  for (const command of [
    'doctor',
    'up',
    'down',
    'worker',
    'train',
    'evaluate',
    'compare',
    'report',
    'tasks',
    'grade',
    'regrade',
    'predictions',
    'export',
    'publish',
    'schedule',
    'ledger',
    'reap',
  ]) {
    assert.match(stdout, new RegExp(`^  ${command} `, 'm'))
    const help = await longhaul(command, '--help')
    assert.equal(help.exitCode, 0)
    assert.match(help.stdout, /Usage: longhaul/)
  }
  assert.match((await longhaul('train', '--help')).stdout, /Examples:\n {2}\$ longhaul train/)
})

test('help is asked of a command that there is not: an error with the nearest name; of one that there is: its own help', async () => {
  for (const args of [
    ['help', 'trian'],
    ['trian', '--help'],
    ['trian', '-h'],
    ['help', 'trian', 'more'],
  ]) {
    const { exitCode, stdout, stderr } = await longhaul(...args)
    assert.deepEqual([exitCode, stdout], [1, ''], args.join(' '))
    assert.match(stderr, /error: unknown command 'trian'\n\(Did you mean train\?\)/, args.join(' '))
  }
  for (const args of [
    ['help', 'run', 'lisst'],
    ['run', 'help', 'lisst'],
    ['run', 'lisst', '--help'],
  ]) {
    const { exitCode, stdout, stderr } = await longhaul(...args)
    assert.deepEqual([exitCode, stdout], [1, ''], args.join(' '))
    assert.match(stderr, /unknown command 'lisst'\n\(Did you mean list\?\)/, args.join(' '))
  }
  for (const [args, usage] of [
    [['help'], 'longhaul [options]'],
    [['help', 'help'], 'longhaul [options]'],
    [['help', 'run'], 'longhaul run [options]'],
    [['run', 'help'], 'longhaul run [options]'],
    [['help', 'run', 'list'], 'longhaul run list [options]'],
    [['run', 'help', 'list'], 'longhaul run list [options]'],
    [['help', 'grade-log'], 'longhaul grade-log [options]'],
  ] as const) {
    const { exitCode, stdout } = await longhaul(...args)
    assert.equal(exitCode, 0, args.join(' '))
    assert.ok(stdout.startsWith(`Usage: ${usage}`), `${args.join(' ')}: ${stdout.slice(0, 80)}`)
  }
})

test('usage mistakes: exit 1, the reason on stderr, nothing on stdout', async () => {
  for (const args of [
    ['frobnicate'],
    ['train', '--bogus'],
    ['tasks', 'synthesize', '--count', 'many'],
    ['worker', '--role', 'cook'],
    ['evaluate', '--threshold', 'pass@1>=0.5'],
    ['train', '-c', 'seed'],
    ['run', 'stop', 'x'],
    ['schedule', 'backfill', 'x', '--from', '2025-02-30T00:00:00Z', '--to', '2025-03-05T00:00:00Z'],
    ['grade', 'gold'],
    ['grade', 'gold', '--suite', 'demo', '--profile', 'mine'],
    ['view', '--port', '99999'],
    ['codec-server', '--port', '99999'],
    ...['', 'x', '*', 'null', 'ftp://x', 'http://u:p@h', 'http://a/b'].map((page) => [
      'codec-server',
      '--origin',
      page,
    ]),
    ['policy-server', 'command', '/p', '--kind', 'vllm', '--context', '9', '--port', '65536'],
    ['train', '--run='],
    ['evaluate', '--policy='],
    ['schedule', 'create', 'a', '--recipe', 'mini', '--execution-timeout', '0s'],
    ['schedule', 'create', 'a', '--recipe', 'mini', '--policy', '../x'],
    ['policy-server', 'check', 'newest', '--kind', 'vllm', '--url', 'http://127.0.0.1:9'],
    ['evaluate', '--run', 'a/b'],
    ['tasks', 'gate', 'mini', '--run', '../x'],
    ['grade', 'gold', '--suite', 'demo', '--run-id', 'a b'],
  ]) {
    const { exitCode, stdout, stderr } = await longhaul(...args)
    assert.deepEqual([exitCode, stdout], [1, ''], args.join(' '))
    assert.match(stderr, /error/, args.join(' '))
    assert.doesNotMatch(stderr, /Unexpected/, args.join(' '))
  }
})

test('an override that is no YAML, and one of an item of a list: the sentence says which override and why', async () => {
  for (const [setting, why] of [
    ['seed=[1', /the = of -c "seed=\[1", got this: Flow sequence must end/],
    ['seed=*a', /Unresolved alias/],
    ['rft.tasks={a: 1, a: 2}', /Map keys must be unique/],
    ['reinforce.stages[0].clip=1', /an item of a list has no path, so give the whole list/],
    ['reinforce.stages.0.clip=1', /an item of a list has no path/],
  ] as const) {
    const { exitCode, stderr } = await longhaul('recipe', 'check', 'demo', '-c', setting)
    assert.equal(exitCode, 1, setting)
    assert.match(stderr, /^error Config\.Invalid: [^\n]*\n$/, setting)
    assert.match(stderr, why)
  }
})

test('a key that no header can carry, and an address with a password: the setting is named, the secret is not', async (t) => {
  const home = await mkdtemp(join(tmpdir(), 'longhaul-cli-'))
  t.after(() => rm(home, { recursive: true }))
  const secret = 'k-secret\nmore'
  const model = ['models', 'import', 'a/b', '--output', join(home, 'policy'), '--revision', '0'.repeat(40)]
  const rows = [
    'tasks',
    'import',
    'a/b',
    '--output',
    join(home, 'rows'),
    '--revision',
    '0'.repeat(40),
    '--split',
    'test',
  ]
  const bucket = { LONGHAUL_ARTIFACTS: 's3://records/x', AWS_ENDPOINT_URL_S3: 'http://127.0.0.1:1', AWS_REGION: '' }
  const keys = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'k-secret' }
  const local = { ...withoutStack(), LONGHAUL_HOME: join(home, 'stack'), LONGHAUL_PYTHON: process.execPath }
  const table: [args: string[], env: Record<string, string>, names: RegExp][] = [
    [[...model, '--hub-url', 'http://127.0.0.1:1'], { HF_TOKEN: secret }, /Expected HF_TOKEN to be printable/],
    [[...model, '--hub-url', 'http://u:k-secret@h'], {}, /Expected --hub-url to be an address without user/],
    [[...rows, '--hub-url', 'k-secret'], {}, /Expected --hub-url to be an http\(s\) address/],
    [rows, { LONGHAUL_HUB_URL: 'http://u:k-secret@h' }, /Expected LONGHAUL_HUB_URL to be an address without user/],
    [['report', 'x'], { ...bucket, ...keys, AWS_SESSION_TOKEN: secret }, /Expected AWS_SESSION_TOKEN, .* printable/],
    [['report', 'x'], { ...bucket, ...keys, AWS_ACCESS_KEY_ID: secret }, /Expected AWS_ACCESS_KEY_ID, .* printable/],
    [['report', 'x'], { ...bucket, ...keys, AWS_REGION: secret }, /Expected AWS_REGION .* to be a region/],
    [['report', 'x'], { ...bucket, ...keys }, /has a port at which no client of HTTP asks/],
    [
      ['run', 'list'],
      { TEMPORAL_ADDRESS: '127.0.0.1:1', TEMPORAL_API_KEY: secret },
      /Expected TEMPORAL_API_KEY, .* printable/,
    ],
  ]
  for (const [args, env, names] of table) {
    useEnvironment(t, { ...local, ...env })
    const { exitCode, stdout, stderr } = await longhaul(...args)
    for (const name of Object.keys(env)) delete process.env[name]
    assert.match(stderr, names, args.join(' '))
    assert.match(stderr, /^error Config\.Invalid: [^\n]*\n$/, args.join(' '))
    assert.doesNotMatch(stderr, /k-secret/, args.join(' '))
    assert.deepEqual([exitCode, stdout, await readdir(home)], [1, '', []], args.join(' '))
  }
})

test('commands that read records: a name that no run can have, a run that is not there, a file that is no record', async (t) => {
  const home = await mkdtemp(join(tmpdir(), 'longhaul-cli-'))
  t.after(() => rm(home, { recursive: true }))
  useEnvironment(t, { LONGHAUL_ARTIFACTS: home })
  const file = join(home, 'other.json')
  await writeFile(file, '{}')
  for (const [args, message] of [
    [['report', '../x'], /'run'\. Expected 1 to 100 letters/],
    [['report', '', '--recompute'], /'run'\. Expected 1 to 100 letters/],
    [['ledger', 'verify', 'nope'], /Config\.NotFound: No run called "nope"/],
    [['view', ''], /Config\.NotFound: Expected "" to be a run/],
    [['compare', file, file], /Config\.Invalid: Expected an evaluation record at .*it has no sha256/],
    [['compare', home.concat('.json'), file], /Config\.NotFound: .*there is no such file/],
  ] as const) {
    const { exitCode, stderr } = await longhaul(...args)
    assert.equal(exitCode, 1, args.join(' '))
    assert.match(stderr, message)
  }
})

test('a store that is not there: readers refuse in one line and make nothing, a recipe is still found, only a writer makes it', async (t) => {
  const home = await mkdtemp(join(tmpdir(), 'longhaul-cli-'))
  t.after(() => rm(home, { recursive: true }))
  const [store, file, recipe] = [join(home, 'mistyped'), join(home, 'out'), join(home, 'mine.yaml')]
  useEnvironment(t, { LONGHAUL_ARTIFACTS: store, LONGHAUL_TEMPORAL_ADDRESS: '127.0.0.1:1' })
  await copyFile('recipes/mini.yaml', recipe)
  for (const args of [
    ['report', 'x'],
    ['report', 'x', '--recompute'],
    ['report', 'x', '--static', file],
    ['ledger', 'verify', 'x'],
    ['view'],
    ['view', 'x'],
    ['compare', 'a:base', 'b:base'],
    ['export', 'x', '--format', 'csv', '--out', file],
    ['predictions', 'x', '--out', file],
    ['track', 'x'],
    ['tasks', 'difficulty', 'x'],
    ['run', 'remove', 'x', '--dry-run'],
    ['publish', 'promoted', '--to', 'a/b', '--dry-run'],
  ]) {
    const { exitCode, stdout, stderr } = await longhaul(...args)
    assert.deepEqual([exitCode, stdout], [1, ''], args.join(' '))
    assert.match(
      stderr,
      /^error Config\.NotFound: No artifact store is at [^\n]*mistyped[^\n]*LONGHAUL_ARTIFACTS[^\n]*\n$/,
    )
  }
  const listed = await longhaul('recipe', 'list')
  assert.equal(listed.exitCode, 0)
  assert.match(listed.stdout, /^demo$/m)
  assert.match(listed.stderr, /No artifact store is at [^\n]*mistyped/)
  assert.match((await longhaul('recipe', 'check', 'dmeo')).stderr, /No recipe is called "dmeo"/)
  assert.equal((await longhaul('recipe', 'push', recipe, '--dry-run')).exitCode, 0)
  assert.deepEqual(await readdir(home), ['mine.yaml'])

  assert.equal((await longhaul('recipe', 'push', recipe)).exitCode, 0)
  assert.match((await longhaul('recipe', 'list')).stdout, /^mine \(pushed\)$/m)
})

test('a run ends on a machine that does not mount its store: its result is shown, and no store is made', async (t) => {
  const home = await mkdtemp(join(tmpdir(), 'longhaul-cli-'))
  t.after(() => rm(home, { recursive: true }))
  useEnvironment(t, { LONGHAUL_ARTIFACTS: join(home, 'elsewhere'), LONGHAUL_TEMPORAL_ADDRESS: '127.0.0.1:1' })
  const said: string[] = []
  const console: Console = { ...SILENT, out: (text) => void said.push(text) }
  const score = { name: 'rl', policy: 'v000001', passAt1: 0.5, sem: 0.1, tasks: 4, attempts: 1 }
  const trained = { run: 'far', stages: [score] } as unknown as TrainAgentResult
  assert.equal(await reportTraining({ console, json: false })(trained, EXIT.ok), EXIT.ok)
  const counts = { resolved: 1, unresolved: 0, couldNotGrade: 0 }
  const graded = { run: 'far', counts, graded: null, official: null, changed: 0 } as unknown as GradePredictionsResult
  const store = await openStoreIfThere()
  const report = reportGrading({ store, console, minGraded: 1, json: false })
  assert.equal(await report(graded, EXIT.ok), EXIT.ok)
  assert.match(said.join('\n'), /^rl {2}v000001 {2}pass@1 0\.500 ± 0\.100[^]*\{"run":"far","counts":\{"resolved":1,/)
  // What the rules need and the result has is judged all the same; what only the record says passes no rule.
  const lost = { ...graded, counts: { ...counts, couldNotGrade: 3 } } as GradePredictionsResult
  assert.equal(await report(lost, EXIT.ok), EXIT.infra)
  assert.match(
    said.at(-1) ?? '',
    /too little was graded: 75\.0 % of the patches have no verdict, and the reasons cannot/,
  )
  const strict = reportGrading({
    store,
    console,
    minGraded: 1,
    json: false,
    alsoDo: async ({ changed }) => ({ codes: changed > 0 ? [EXIT.threshold] : [], lines: [], facts: {} }),
  })
  assert.equal(await strict({ ...graded, changed: 1 }, EXIT.ok), EXIT.threshold)
  assert.deepEqual(await readdir(home), [])
})

test('an error is one clear line with its code, never a stack', async () => {
  const { exitCode, stderr } = await longhaul('recipe', 'check', 'dmeo')
  assert.equal(exitCode, 1)
  assert.match(stderr, /^error Config\.NotFound: No recipe is called "dmeo"; did you mean demo\?/)
  assert.doesNotMatch(stderr, /\n\s+at /)
})

const NO_PLACE = '/proc/longhaul/x'
/** The commands that write a file or a directory, with the option that names it. */
const WRITERS: [option: string, ...args: string[]][] = [
  ['directory', 'init', NO_PLACE],
  ['--output', 'recipe', 'schema', '--output', NO_PLACE],
  ['--output', 'tasks', 'synthesize', '--count', '1', '--output', NO_PLACE],
  ['--output', 'tasks', 'import', 'rows.jsonl', '--output', NO_PLACE],
  ['--evidence', 'tasks', 'gate', '--recipe', 'mini', '--evidence', NO_PLACE],
  ['--output', 'tasks', 'difficulty', 'some-run', '--output', NO_PLACE],
  ['--html', 'compare', 'a:base', 'b:base', '--html', NO_PLACE],
  ['--markdown', 'compare', 'a:base', 'b:base', '--markdown', NO_PLACE],
  ['--html', 'report', 'some-run', '--html', NO_PLACE],
  ['--static', 'report', 'some-run', '--static', NO_PLACE],
  ['--out', 'export', 'some-run', '--format', 'csv', '--out', NO_PLACE],
  ['--out', 'predictions', 'some-run', '--out', NO_PLACE],
  ['--out', 'grade', 'gold', '--suite', 'demo', '--out', NO_PLACE],
  ['--output', 'models', 'import', tmpdir(), '--output', NO_PLACE],
]

test('a path that cannot be written: each command that writes ends with one line that names it, before its work', async () => {
  for (const [option, ...args] of WRITERS) {
    const { exitCode, stdout, stderr } = await longhaul(...args)
    assert.deepEqual([exitCode, stdout], [1, ''], args.join(' '))
    assert.match(stderr, new RegExp(`^error Config\\.Invalid: Expected .*${option}.*ENOENT.*\n$`), args.join(' '))
  }
})

test('a result that can be written: its directory is made before the work, and nothing is left where the work fails', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'longhaul-cli-'))
  try {
    const rows = join(directory, 'new/rows.jsonl')
    assert.equal((await longhaul('tasks', 'import', join(directory, 'absent.jsonl'), '--output', rows)).exitCode, 1)
    assert.deepEqual(await readdir(join(directory, 'new')), [])
    assert.equal((await longhaul('tasks', 'synthesize', '--count', '1', '--output', rows)).exitCode, 0)
    const before = await readFile(rows)
    assert.equal((await longhaul('tasks', 'import', join(directory, 'absent.jsonl'), '--output', rows)).exitCode, 1)
    assert.deepEqual(await readFile(rows), before)
    const { stderr } = await longhaul('tasks', 'synthesize', '--count', '1', '--output', directory)
    assert.match(stderr, /^error Config\.Invalid: Expected --output .*EISDIR/)
  } finally {
    await rm(directory, { recursive: true })
  }
})

test('a directory where a file should be, and the other way round: the path and the reason, and 1', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'longhaul-cli-'))
  t.after(() => rm(directory, { recursive: true }))
  const rows = join(directory, 'rows.jsonl')
  await writeFile(rows, '{}\n')
  const link = join(directory, 'link')
  await symlink(rows, link)
  for (const path of [rows, link]) {
    for (const [option, ...args] of [
      ['--out', 'grade', 'gold', '--suite', 'mini', '--out', path],
      ['--static', 'report', 'x', '--static', path],
    ] as const) {
      const { exitCode, stderr } = await longhaul(...args)
      assert.equal(exitCode, 1)
      assert.match(stderr, new RegExp(`^error Config\\.Invalid: Expected ${option} to name a path .*ENOTDIR.*\n$`))
    }
  }
  const harness = ['--profile', 'swebench-4.1', '--parser', 'django/django']
  for (const [args, message] of [
    [['grade-log', '--batch', directory], /Expected a file of logs at .*: it is a directory/],
    [['grade-log', directory, ...harness], /Expected a log, or a list of tests at .*: it is a directory/],
    [
      ['tasks', 'import', rows, '--output', `${rows}.out`, '--evidence', directory],
      /Expected a file of evidence at .*: it is a directory/,
    ],
    [
      ['policy-server', 'command', rows, '--kind', 'vllm', '--name', 'v000012-1a2b3c4d', '--context', '9'],
      /Expected a policy’s directory with config\.json at .*rows\.jsonl: /,
    ],
  ] as const) {
    const { exitCode, stdout, stderr } = await longhaul(...args)
    assert.deepEqual([exitCode, stdout], [1, ''], args.join(' '))
    assert.match(stderr, message)
  }
})

test('a disk without room: one line names the file, and nothing of it is left', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'longhaul-cli-'))
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=8k', 'none', directory])
  t.after(async () => {
    if (mounted.status === 0) spawnSync('umount', [directory])
    await rm(directory, { recursive: true })
  })
  if (mounted.status !== 0) return t.skip('needs root: mounts a file system')
  const rows = join(directory, 'rows.jsonl')
  await writeFile(rows, 'as before')
  for (const args of [
    ['recipe', 'schema', '--output', join(directory, 'schema.json')],
    ['tasks', 'synthesize', '--count', '3', '--output', rows],
  ]) {
    const { exitCode, stderr } = await longhaul(...args)
    assert.equal(exitCode, 1)
    assert.match(
      stderr,
      /^error Config\.Invalid: Expected to write .*(schema\.json|rows\.jsonl), no room is left on its disk \(ENOSPC\)\n$/,
    )
  }
  assert.deepEqual([await readdir(directory), await readFile(rows, 'utf8')], [['rows.jsonl'], 'as before'])
})

test('a result that is a mount of its own, as a file that a container was given: its content is replaced', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'longhaul-cli-'))
  const rows = join(directory, 'rows.jsonl')
  await writeFile(rows, 'as before')
  const mounted = spawnSync('mount', ['--bind', rows, rows])
  t.after(async () => {
    if (mounted.status === 0) spawnSync('umount', [rows])
    await rm(directory, { recursive: true })
  })
  if (mounted.status !== 0) return t.skip('needs root: mounts a file system')
  const { exitCode, stderr } = await longhaul('tasks', 'synthesize', '--count', '1', '--output', rows)
  assert.deepEqual([exitCode, stderr], [0, ''])
  assert.match(await readFile(rows, 'utf8'), /^\{"instance_id":"synthetic__train-000000"/)
  assert.deepEqual(await readdir(directory), ['rows.jsonl'])
})

test('a recipe file with a mistake is refused before anything is connected to', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'longhaul-cli-'))
  try {
    const file = join(directory, 'mine.yaml')
    await writeFile(file, 'seed: 1\nmodle: {}\n')
    for (const command of [
      ['train', '--recipe', file],
      ['evaluate', '--recipe', file],
      ['recipe', 'check', file],
    ]) {
      const { exitCode, stderr } = await longhaul(...command)
      assert.equal(exitCode, 1)
      assert.match(stderr, /mine\.yaml:2:1 error recipe\/unknown-key modle/)
    }
  } finally {
    await rm(directory, { recursive: true })
  }
})

test('--json: an error is a record on stdout too', async () => {
  const { stdout } = await longhaul('recipe', 'show', 'nope', '--json')
  assert.deepEqual((({ event, code }) => ({ event, code }))(JSON.parse(stdout)), {
    event: 'error',
    code: 'Config.NotFound',
  })
  const usage = await longhaul('train', '--bogus', '--json')
  assert.deepEqual(JSON.parse(usage.stdout), {
    event: 'error',
    code: 'Config.Invalid',
    message: "unknown option '--bogus'",
  })
})

test('options that exclude each other are refused, in a record too, before anything is asked or written', async (t) => {
  const home = await mkdtemp(join(tmpdir(), 'longhaul-cli-'))
  t.after(() => rm(home, { recursive: true }))
  useEnvironment(t, { LONGHAUL_ARTIFACTS: home, LONGHAUL_TEMPORAL_ADDRESS: '127.0.0.1:1' })
  const pages = join(home, 'pages')
  const cases: [words: string[], RegExp][] = [
    [['run', 'stop', 'x'], /Expected either --after-iteration <n> or --now, got neither/],
    [['run', 'stop', 'x', '--now', '--after-iteration', '1'], /Expected either .* got both/],
    [['compare', 'x', 'y', '--html', pages, '--markdown', pages], /Expected --html and --markdown to name two files/],
    [['wait', 'x', '--junit', pages, '--summary', `${pages}/../pages`], /Expected --junit and --summary to name two/],
    [['report', 'x', '--recompute', '--static', pages], /Expected one of .* got --static and --recompute/],
    [['report', 'x', '--html', join(home, 'x.html'), '--static', pages], /Expected one of .* got --html and --static/],
  ]
  for (const [words, message] of cases) {
    const { exitCode, stdout } = await longhaul(...words, '--json')
    assert.equal(exitCode, 1, words.join(' '))
    const record = JSON.parse(stdout) as { event: string; code: string; message: string }
    assert.deepEqual([record.event, record.code], ['error', 'Config.Invalid'])
    assert.match(record.message, message)
  }
  assert.deepEqual(await readdir(home), [])
})

test('standard output on a full device: one line on stderr and 2, no stack', () => {
  const bin = fileURLToPath(new URL('../../bin/longhaul.mjs', import.meta.url))
  const script = 'exec "$0" "$1" --version > /dev/full'
  const { status, stderr } = spawnSync('sh', ['-c', script, process.execPath, bin], { encoding: 'utf8' })
  assert.deepEqual([status, stderr], [2, 'error: the output cannot be written (ENOSPC)\n'])
})

test('a server of TLS by its IP address: one line on stderr, and no warning of the transport', async (t) => {
  const server = createServer((socket) => socket.end())
  const port = await listenOnLoopback(server)
  t.after(() => server.close())
  const bin = fileURLToPath(new URL('../../bin/longhaul.mjs', import.meta.url))
  const env = { ...process.env, ...withoutStack(), TEMPORAL_ADDRESS: `127.0.0.1:${port}`, TEMPORAL_TLS: 'true' }
  const child = spawn(process.execPath, [bin, 'run', 'list'], { env, stdio: ['ignore', 'ignore', 'pipe'] })
  const stderr = await text(child.stderr)
  assert.match(stderr, /^error Temporal\.Unreachable: [^\n]*it speaks no TLS[^\n]*\n$/)
})

test('recipe show: defaults are filled in and overrides applied', async () => {
  const { exitCode, stdout } = await longhaul('recipe', 'show', 'demo', '--json', '-c', 'rft.tasks=12', '--seed', '7')
  assert.equal(exitCode, 0)
  const { recipe } = JSON.parse(stdout) as { recipe: { seed: number; rft: { tasks: number; keep: string } } }
  assert.deepEqual([recipe.seed, recipe.rft.tasks, recipe.rft.keep], [7, 12, 'resolved'])
})

test('tasks synthesize: the same seed makes the same rows, in the row schema', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'longhaul-cli-'))
  try {
    const file = join(directory, 'rows.jsonl')
    const args = ['tasks', 'synthesize', '--count', '2', '--seed', '3', '--split', 'eval']
    const first = await longhaul(...args)
    const second = await longhaul(...args, '--output', file)
    assert.equal(second.stdout, `2 tasks in ${file}\n`)
    assert.equal(await readFile(file, 'utf8'), first.stdout)
    const rows = first.stdout
      .trim()
      .split('\n')
      .map((row) => JSON.parse(row) as { instance_id: string; patch: string })
    assert.deepEqual(
      rows.map(({ instance_id }) => instance_id),
      ['synthetic__eval-000000', 'synthetic__eval-000001'],
    )
    assert.match(rows[0]?.patch ?? '', /^diff --git/)
  } finally {
    await rm(directory, { recursive: true })
  }
})

test('settings: paths nest, values are YAML, a later one wins', () => {
  assert.deepEqual(parseSettings(['rft.tasks=4', 'rft.optim.lr=1.0e-4', 'rft=null', 'a.b=[1, x]'], 9), {
    seed: 9,
    rft: null,
    a: { b: [1, 'x'] },
  })
  assert.deepEqual(parseSettings(['rft.tasks=4', 'rft.batch=8', 'rft.tasks=5']), { rft: { tasks: 5, batch: 8 } })
})

test('a threshold reads the bound, not the mean', () => {
  const score = { mean: 0.5, low: 0.4, high: 0.6, source: 'cluster bootstrap' }
  const missed = judgeThreshold(parseThreshold('pass@1.lower>=0.45'), score)
  assert.equal(missed.met, false)
  assert.match(missed.verdict, /threshold missed: pass@1\.lower 0\.400 < 0\.45 \(mean 0\.500/)
  assert.equal(judgeThreshold(parseThreshold('pass@1.upper >= .45'), score).met, true)
})

test('a bound that is just missed is shown with as many decimals as tell it from the threshold', () => {
  const verdictOf = (low: number): string =>
    judgeThreshold(parseThreshold('pass@1.lower>=0.35'), { mean: 0.5, low, high: 0.6, source: 'exact' }).verdict
  assert.match(verdictOf(0.34996), /missed: pass@1\.lower 0\.34996 < 0\.35 /)
  assert.match(verdictOf(0.35 - 1e-15), /missed: pass@1\.lower 0\.349999999999999 < 0\.35 /)
  assert.match(verdictOf(0.35), /met: pass@1\.lower 0\.350 ≥ 0\.35 /)
  assert.match(verdictOf(0.35004), /met: pass@1\.lower 0\.350 ≥ 0\.35 /)
})

test('arguments and files are refused before a server, an engine or a Python is asked, and nothing is made', async (t) => {
  const home = await mkdtemp(join(tmpdir(), 'longhaul-cli-'))
  t.after(() => rm(home, { recursive: true }))
  useEnvironment(t, {
    ...withoutStack(),
    LONGHAUL_HOME: join(home, 'stack'),
    LONGHAUL_TEMPORAL_ADDRESS: '127.0.0.1:1',
    DOCKER_HOST: 'tcp://127.0.0.1:1',
    LONGHAUL_PYTHON: join(home, 'no-python'),
  })
  const names = ['absent.json', 'bad.json', 'empty.json', 'rows.jsonl', 'out', 'twice.jsonl']
  const [absent, bad, empty, rows, out, twice] = names.map((name) => join(home, name))
  await writeFile(bad ?? '', '{bad')
  await writeFile(empty ?? '', '[]')
  const { stdout: row } = await longhaul('tasks', 'synthesize', '--count', '1')
  await writeFile(rows ?? '', row)
  await writeFile(twice ?? '', `${row}${row}`)
  const noFile = /there is no such file/
  const notJson = /Expected JSON/
  const noPlace = /to name a path that can be written, got \/proc\/longhaul\/x/
  const table: [args: (string | undefined)[], message: RegExp][] = [
    [['evaluate', '--baseline', absent], noFile],
    [['evaluate', '--baseline', bad], /it has no sha256/],
    [['evaluate', '--junit', NO_PLACE], noPlace],
    [['evaluate', '--summary', NO_PLACE], noPlace],
    [['wait', 'some-run', '--baseline', absent], noFile],
    [['wait', 'some-run', '--junit', NO_PLACE], noPlace],
    [['tasks', 'gate', absent], noFile],
    [['tasks', 'gate', bad], notJson],
    [['grade', absent, '--suite', 'mini:heldOut'], noFile],
    [['grade', bad, '--suite', 'mini:heldOut'], notJson],
    [['regrade', '../x'], /Expected 1 to 100 letters/],
    [['images', 'build', absent], noFile],
    [['images', 'build', empty], /Expected at least one row of a task in /],
    [['images', 'build', rows, '--repos', absent], /Expected --repos to be a directory or an address/],
    [['images', 'build', rows, '--only', ','], /Expected --only to name a task of the suite, got none/],
    [['images', 'build', twice], /Expected a unique id, got that of line 1: leave one of the two rows out/],
    [['models', 'import', './absent', '--output', out], /Expected a model directory or a \.gguf file at .*absent/],
    [['models', 'import', bad, '--output', out], /Expected a model directory or a \.gguf file.*bad\.json/],
    [['models', 'import', home, '--output', out, '--tokenizer', absent], /Expected --tokenizer to be a directory/],
    [['models', 'import', home, '--output', home], /to be free: an import never overwrites/],
    [
      ['schedule', 'backfill', 'x', '--from', '2026-01-02T00:00:00Z', '--to', '2026-01-01T00:00:00Z'],
      /Expected a span of the past/,
    ],
    [['track', 'x', '--recipe', './absent.yaml'], noFile],
    [['reap', '--dry-run'], /No artifact store is at/],
    [['up', '--temporal', 'bad'], /Expected --temporal to be development, postgres/],
  ]
  useEnvironment(t, { LONGHAUL_PYTHONS: `${home}:${absent}` })
  table.push([
    ['images', 'build', rows],
    /Expected LONGHAUL_PYTHONS to name directories .*absent\.json is not a directory/,
  ])
  const before = await readdir(home)
  for (const [args, message] of table) {
    const words = args.map((word) => word ?? '')
    const { exitCode, stdout, stderr } = await longhaul(...words)
    assert.match(stderr, message, words.join(' '))
    assert.deepEqual([exitCode, stdout, await readdir(home)], [1, '', before], words.join(' '))
  }
})

test('up with a setting that a worker refuses: one error before the set-up', async (t) => {
  const home = await mkdtemp(join(tmpdir(), 'longhaul-cli-'))
  t.after(() => rm(home, { recursive: true }))
  const file = join(home, 'file')
  await writeFile(file, '')
  // The set-up, which is never reached, would refuse this engine.
  const usual = { ...withoutStack(), LONGHAUL_HOME: join(home, 'stack'), DOCKER_HOST: 'tcp://127.0.0.1:1' }
  const bucket = { LONGHAUL_ARTIFACTS: 's3://records/x', AWS_ENDPOINT_URL_S3: 'http://127.0.0.1:1' }
  const table: [env: Record<string, string>, message: RegExp][] = [
    [{ LONGHAUL_MIN_FREE_GIB: 'x' }, /LONGHAUL_MIN_FREE_GIB to be a number/],
    [{ LONGHAUL_HUB_URL: 'nope' }, /LONGHAUL_HUB_URL to be an http\(s\) address/],
    [{ LONGHAUL_POLICY_API_KEY: 'k-secret\nmore' }, /LONGHAUL_POLICY_API_KEY to be printable/],
    [{ LONGHAUL_RECIPES: join(home, 'nowhere') }, /LONGHAUL_RECIPES to name directories/],
    [{ LONGHAUL_CODEC_KEYS: join(home, 'nowhere') }, /a readable file of keys at .*nowhere/],
    [{ LONGHAUL_ARTIFACTS: join(file, 'store') }, /artifact store to be a directory that can be made/],
    [{ ...bucket, AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'k-secret' }, /no client of HTTP asks/],
  ]
  for (const [env, message] of table) {
    const restore = changeEnvironment({ ...usual, ...env })
    const { exitCode, stdout, stderr } = await longhaul('up')
    restore()
    assert.match(stderr, message)
    assert.match(stderr, /^error Config\.[^\n]*\n$/)
    assert.doesNotMatch(stderr, /k-secret|operator=/)
    assert.deepEqual([exitCode, stdout], [1, ''])
    const stacks = join(home, 'stack/stacks/default')
    assert.deepEqual(
      (await readdir(stacks, { recursive: true, withFileTypes: true })).filter((one) => one.isFile()),
      [],
    )
  }
})

test('a cache that cannot be made: the variable is named by each command that uses it', async (t) => {
  const home = await mkdtemp(join(tmpdir(), 'longhaul-cli-'))
  t.after(() => rm(home, { recursive: true }))
  const file = join(home, 'file')
  await writeFile(file, (await longhaul('tasks', 'synthesize', '--count', '1')).stdout)
  const rows = join(home, 'rows.jsonl')
  await copyFile(file, rows)
  useEnvironment(t, { ...withoutStack(), LONGHAUL_HOME: join(home, 'stack'), LONGHAUL_PYTHON: '' })
  for (const cache of [join(file, 'cache'), file]) {
    useEnvironment(t, { LONGHAUL_CACHE: cache })
    for (const args of [
      ['images', 'build', rows],
      ['models', 'import', home, '--output', join(home, 'made')],
      ['up'],
    ]) {
      const { exitCode, stdout, stderr } = await longhaul(...args)
      assert.match(
        stderr,
        /^error Config\.Invalid: Expected a writable place for directories, [^\n]*set LONGHAUL_CACHE[^\n]*\n$/,
      )
      assert.deepEqual([exitCode, stdout], [1, ''], args.join(' '))
    }
  }
})

test('a schedule of a recipe file, and no server: nothing is pushed', async (t) => {
  const home = await mkdtemp(join(tmpdir(), 'longhaul-cli-'))
  t.after(() => rm(home, { recursive: true }))
  useEnvironment(t, { LONGHAUL_ARTIFACTS: join(home, 'store'), LONGHAUL_TEMPORAL_ADDRESS: '127.0.0.1:1' })
  const recipe = join(home, 'mine.yaml')
  await copyFile('recipes/mini.yaml', recipe)
  const { exitCode, stderr } = await longhaul('schedule', 'create', 'nightly', '--recipe', recipe)
  assert.equal(exitCode, EXIT.infra)
  assert.match(stderr, /^error Temporal\.Unreachable: [^\n]*\n$/)
  assert.deepEqual(await readdir(home), ['mine.yaml'])
})

test('the Python that a model is read with cannot be started: the variable is named before anything is read, and nothing is made', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'longhaul-cli-'))
  t.after(() => rm(directory, { recursive: true }))
  useEnvironment(t, { LONGHAUL_PYTHON: join(directory, 'python') })
  const { exitCode, stdout, stderr } = await longhaul('models', 'import', directory, '--output', join(directory, 'out'))
  assert.deepEqual([exitCode, stdout], [1, ''])
  assert.match(stderr, /^error Config\.Invalid: Expected LONGHAUL_PYTHON to name .*: there is no such file\n$/)
})
