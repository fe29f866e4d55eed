/**
 * Leaving a run: the command line as a process of its own, against a real server in a namespace that no worker serves, so that
 * the run waits for as long as the test needs.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { NativeConnection, Worker } from '@temporalio/worker'
import { eventually } from '../../../test/support/hang.ts'
import { connectToOwnNamespace, needsServer } from '../../../test/support/own-namespace.ts'
import { findRun, type LonghaulConnection, pauseRun, startTraining, stopRunAfterIteration } from '../../client/index.ts'
import { QUEUES } from '../../contracts/workflow-ids.ts'
import { buildWorkflowBundle } from '../../workers/compose-control.ts'

const bin = fileURLToPath(new URL('../../../bin/longhaul.mjs', import.meta.url))
let connection: LonghaulConnection

before(async () => {
  if (needsServer === false) connection = await connectToOwnNamespace('cli-test')
})

after(async () => {
  await connection?.close()
})

interface Started {
  child: ChildProcess
  output: { stdout: string; stderr: string }
  /** Resolves once stderr matches; rejects when the process ends first. */
  says(pattern: RegExp): Promise<void>
  ended: Promise<number | null>
}

function longhaul(args: string[], env: Record<string, string> = {}): Started {
  const child = spawn(process.execPath, [bin, ...args], {
    env: { ...process.env, CI: '', LONGHAUL_NAMESPACE: connection.namespace, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const output = { stdout: '', stderr: '' }
  child.stdout.on('data', (data) => (output.stdout += String(data)))
  child.stderr.on('data', (data) => (output.stderr += String(data)))
  return {
    child,
    output,
    says: async (pattern) => {
      while (!pattern.test(output.stderr)) {
        assert.deepEqual([child.exitCode, child.signalCode], [null, null], output.stderr)
        await Promise.race([once(child.stderr, 'data'), once(child, 'exit')])
      }
    },
    ended: once(child, 'exit').then(([code]) => code as number | null),
  }
}

const statusOf = async (run: string): Promise<string> => (await findRun({ connection, run })).status

test('one Ctrl-C detaches: 130, the run goes on, and the way back is said', { skip: needsServer }, async () => {
  const { child, output, says, ended } = longhaul(['train', '--recipe', 'mini', '--run', 'left-alone'])
  await says(/started train\/left-alone/)
  child.kill('SIGINT')
  assert.equal(await ended, 130)
  assert.match(output.stderr, /detached; train\/left-alone goes on\n.*longhaul run status left-alone --follow/)
  assert.equal(output.stdout, '')
  assert.equal(await statusOf('left-alone'), 'RUNNING')
})

test('one Ctrl-C of a command that prints records: the last one is done, with the code', {
  skip: needsServer,
}, async () => {
  const commands = [
    ['train', '--recipe', 'mini', '--run', 'records'],
    ['wait', 'records'],
    ['run', 'status', 'records', '--follow'],
  ]
  for (const words of commands) {
    const { child, output, says, ended } = longhaul([...words, '--json'])
    await says(/(?:started|joined) train\/records/)
    child.kill('SIGINT')
    assert.equal(await ended, 130)
    const done = JSON.parse(output.stdout.trim().split('\n').at(-1) ?? '') as object
    assert.deepEqual(done, { event: 'done', exitCode: 130, outcome: { status: 'detached' } }, words.join(' '))
  }
})

test('a training, an evaluation and a gate share a name: the way back to each leads to no other', {
  skip: needsServer,
}, async () => {
  const training = await startTraining({ connection, recipe: 'mini', run: 'same' })
  const commands = { 'eval/same': ['evaluate', '--recipe', 'nightly'], 'gate/same': ['tasks', 'gate', 'demo'] }
  for (const [workflowId, command] of Object.entries(commands)) {
    const { child, output, says, ended } = longhaul([...command, '--run', 'same'])
    await says(/started /)
    child.kill('SIGINT')
    assert.equal(await ended, 130)
    const [, run = ''] = /longhaul run stop (\S+) --now/.exec(output.stderr) ?? []
    assert.equal((await findRun({ connection, run })).workflowId, workflowId)
    await connection.client.workflow.getHandle(workflowId).terminate('end of test')
  }
  await connection.client.workflow.getHandle(training.workflowId).terminate('end of test')
})

/** Whether the server has recorded a request to end the run. */
async function isAskedToEnd(workflowId: string): Promise<boolean> {
  const { events } = await connection.client.workflow.getHandle(workflowId).fetchHistory()
  return events?.some((event) => event.workflowExecutionCancelRequestedEventAttributes) === true
}

/**
 * npm forwards the Ctrl-C that the terminal has already sent to its child; `timeout` and `script` send SIGTERM twice. Whether the kernel
 * merged the two into one decided whether the run was cancelled: the steering test lost runs to that.
 */
test('one Ctrl-C that arrives twice detaches, and so do two SIGTERMs: the run goes on', {
  skip: needsServer,
}, async () => {
  const workflowId = 'train/signalled-twice'
  const twice = "process.on('SIGUSR2', () => [1, 2].forEach(() => process.emit('SIGINT', 'SIGINT')))"
  const options = `--import=data:text/javascript,${encodeURIComponent(twice)}`
  const terminal = longhaul(['train', '--recipe', 'mini', '--run', 'signalled-twice'], { NODE_OPTIONS: options })
  await terminal.says(/started train\/signalled-twice/)
  terminal.child.kill('SIGUSR2')
  assert.equal(await terminal.ended, 130, terminal.output.stderr)
  assert.match(terminal.output.stderr, /detached; .*or Ctrl-C again/s)
  assert.doesNotMatch(terminal.output.stderr, /cancelling/)

  const program = longhaul(['train', '--recipe', 'mini', '--run', 'signalled-twice'])
  await program.says(/joined train\/signalled-twice/)
  program.child.kill('SIGTERM')
  await program.says(/detached/)
  program.child.kill('SIGTERM')
  assert.equal(await program.ended, 130, program.output.stderr)
  assert.doesNotMatch(program.output.stderr, /Ctrl-C|cancelling/)

  assert.equal(await isAskedToEnd(workflowId), false)
  await connection.client.workflow.getHandle(workflowId).terminate('end of test')
})

test('the same command joins the run; a second Ctrl-C cancels it', { skip: needsServer }, async () => {
  const { child, says, ended } = longhaul(['train', '--recipe', 'mini', '--run', 'left-alone'])
  await says(/joined train\/left-alone/)
  child.kill('SIGINT')
  await says(/detached/)
  // A user needs longer for the second one than npm, which forwards the first.
  await sleep(300)
  child.kill('SIGINT')
  await says(/cancelling the run/)
  // No worker serves this namespace, so the request has no effect yet: the server must hold it.
  await eventually(async () => {
    assert.ok(await isAskedToEnd('train/left-alone'))
  })
  await connection.client.workflow.getHandle('train/left-alone').terminate('end of test')
  assert.equal(await ended, 130)
})

test('in CI the first interrupt cancels, because no user would come back', { skip: needsServer }, async () => {
  const { child, says, ended, output } = longhaul(['evaluate', '--recipe', 'nightly', '--run', 'ci', '--json'], {
    CI: 'true',
  })
  await says(/started eval\/ci/)
  child.kill('SIGTERM')
  await says(/cancelling the run/)
  await connection.client.workflow.getHandle('eval/ci').terminate('end of test')
  assert.equal(await ended, 130)
  const records = output.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { event: string; exitCode?: number })
  assert.equal(records[0]?.event, 'launch')
  assert.deepEqual([records.at(-1)?.event, records.at(-1)?.exitCode], ['done', 130])
})

test('--detach prints the workflow id and ends with 0; status and stop find the run', {
  skip: needsServer,
}, async () => {
  const started = longhaul(['train', '--recipe', 'mini', '--run', 'later', '--detach'])
  assert.equal(await started.ended, 0)
  assert.equal(started.output.stdout, 'train/later\n')
  const status = longhaul(['run', 'status', 'later', '--json'])
  assert.equal(await status.ended, 0)
  assert.equal((JSON.parse(status.output.stdout) as { status: string }).status, 'RUNNING')
  const stop = longhaul(['run', 'stop', 'later', '--now'])
  assert.equal(await stop.ended, 0)
  assert.equal(stop.output.stdout, 'cancelling train/later\n')
  // Nobody carries the cancel out here: the run closes until the test ends it.
  const first = await connection.client.workflow.getHandle('train/later').describe()
  const again = longhaul(['train', '--recipe', 'mini', '--run', 'later', '--detach'])
  await again.says(/train\/later was cancelled and is closing; it is started again when it has ended/)
  await connection.client.workflow.getHandle('train/later', first.runId).terminate('end of test')
  assert.equal(await again.ended, 0)
  assert.match(again.output.stderr, /started train\/later/)
  assert.equal(await statusOf('later'), 'RUNNING')
  const unknown = longhaul(['run', 'status', 'absent'])
  assert.equal(await unknown.ended, 1)
  assert.match(unknown.output.stderr, /^error Config\.NotFound/)
})

/** The story: somebody stops or pauses a run, and another person's command joins it. It would end early, or stand still, unexplained. */
test('a command that joins a paused run that will stop early says both', { skip: needsServer }, async () => {
  const native = await NativeConnection.connect({ address: connection.address })
  const worker = await Worker.create({
    connection: native,
    namespace: connection.namespace,
    taskQueue: QUEUES.control,
    workflowBundle: await buildWorkflowBundle(),
  })
  const stopped = worker.run()
  try {
    const command = ['train', '--recipe', 'mini', '--run', 'shared']
    const first = longhaul([...command, '--detach'])
    assert.equal(await first.ended, 0)
    assert.doesNotMatch(first.output.stderr, /paused|stops after/)
    const address = { connection, workflowId: 'train/shared' }
    await eventually(() => pauseRun(address))
    await stopRunAfterIteration({ ...address, iteration: 2 })
    for (const extra of [['--detach'], []]) {
      const joined = longhaul([...command, ...extra])
      await joined.says(/it is paused; continue it with longhaul run resume shared/)
      await joined.says(/it stops after iteration 2, as an operator asked/)
      joined.child.kill('SIGTERM')
      await joined.ended
    }
    await connection.client.workflow.getHandle('train/shared').terminate('end of test')
  } finally {
    worker.shutdown()
    await stopped
    await native.close()
  }
})

test('the patches of a run that nobody knows are to be graded again: no run begins, and near names are shown', {
  skip: needsServer,
}, async () => {
  const store = await mkdtemp(join(tmpdir(), 'longhaul-regrade-'))
  try {
    await mkdir(join(store, 'runs', 'known-2026-11-20-a'), { recursive: true })
    await writeFile(join(store, 'runs', 'known-2026-11-20-a', 'recipe.json'), '{}')
    const env = { LONGHAUL_ARTIFACTS: store }
    const unknown = longhaul(['regrade', 'known-2026-11-20-b', '--run', 'regraded', '--detach'], env)
    assert.equal(await unknown.ended, 1)
    assert.match(unknown.output.stderr, /^error Config\.NotFound: .*did you mean known-2026-11-20-a\?/)
    await assert.rejects(findRun({ connection, run: 'regraded' }), { code: 'Config.NotFound' })

    // This store may not be that of the workers, who look in theirs.
    await startTraining({ connection, recipe: 'mini', run: 'elsewhere' })
    const known = longhaul(['regrade', 'elsewhere', '--run', 'regraded', '--detach'], env)
    assert.equal(await known.ended, 0, known.output.stderr)
    assert.equal(known.output.stdout, 'grade/regraded\n')
  } finally {
    await rm(store, { recursive: true, force: true })
  }
})

test('schedules by command: created, unchanged, listed, triggered, deleted', { skip: needsServer }, async () => {
  const say = async (...args: string[]): Promise<string> => {
    const { ended, output } = longhaul(['schedule', ...args])
    assert.equal(await ended, 0, output.stderr)
    return output.stdout
  }
  assert.match(
    await say('create', 'nightly', '--recipe', 'nightly'),
    /^created nightly: evaluate nightly, 0 2 \* \* \* UTC/,
  )
  assert.match(
    await say('create', 'nightly', '--recipe', 'nightly', '--timezone', 'Europe/Berlin'),
    /^updated nightly.*\n {2}timezone: UTC → Europe\/Berlin/,
  )
  assert.match(await say('trigger', 'nightly'), /^eval\/nightly-/)
  await eventually(async () =>
    assert.match(await say('list'), /^nightly: evaluate nightly.*\n.*next.*\n.*last.*eval\/nightly-/),
  )
  assert.equal(await say('delete', 'nightly'), 'deleted nightly\n')
  assert.equal(await say('list'), 'no schedules\n')
})
