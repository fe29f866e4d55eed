/**
 * What an operator types: recipes made known to every worker, runs found by what they are of, paused, limited and ended; with a
 * control worker that answers, with one that is stopped, and with none. The namespace has no sandbox host, so the run stays in its gate.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Context } from '@temporalio/activity'
import type { Connection } from '@temporalio/client'
import { NativeConnection, Worker } from '@temporalio/worker'
import { type LonghaulConnection, queryProgress } from '../../src/client/index.ts'
import { QUEUES } from '../../src/contracts/workflow-ids.ts'
import { hasPoller } from '../../src/stack/temporal-namespace.ts'
import { eventually, HANG_MS } from '../support/hang.ts'
import { needsServer, prepareOwnNamespace } from '../support/own-namespace.ts'
import { runNameOf } from '../support/run-recipe.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const ESCAPE = String.fromCharCode(27)
const CTRL_C = String.fromCharCode(3)
const RECIPE = `pushed-${process.pid}`

describe('steering by commands', { skip: needsServer }, () => {
  const workflowId = `from-the-ui/${RECIPE}`
  let scratch: string
  let connection: LonghaulConnection
  let environment: NodeJS.ProcessEnv
  let worker: ChildProcess
  let run: string

  before(async () => {
    scratch = await mkdtemp(join(tmpdir(), 'longhaul-steering-'))
    ;({ connection, environment } = await prepareOwnNamespace('steering', scratch))
    worker = await startWorker()
  })

  after(async () => {
    worker?.kill('SIGKILL')
    await connection?.client.workflow
      .getHandle(workflowId)
      .terminate('the test is over')
      .catch(() => undefined)
    await connection?.close()
    await rm(scratch, { recursive: true, force: true })
  })

  test('a pushed recipe is started by its name, found by a filter, paused, limited and resumed', async () => {
    const file = join(scratch, `${RECIPE}.yaml`)
    await writeFile(file, await readFile(join(root, 'recipes/mini.yaml'), 'utf8'))
    const pushed = await ok('recipe', 'push', file)
    assert.deepEqual([pushed['name'], pushed['changed']], [RECIPE, true])
    assert.equal((await ok('recipe', 'push', file))['changed'], false)

    const args = [{ recipe: RECIPE, gitSha: 'abcdef0123' }]
    await connection.client.workflow.start('trainAgent', { workflowId, taskQueue: 'control', args })
    run = await runNameOf({ connection, workflowId })
    assert.match(run, new RegExp(`^${RECIPE}-`))

    // The index lags by a moment.
    await eventually(async () => assert.deepEqual(await listed(), [[run, workflowId]]))
    const would = await ok('run', 'pause', run, '--hard', '--dry-run')
    assert.deepEqual([would['changed'], would['dryRun']], [true, true])
    assert.equal((await ok('run', 'pause', run, '--hard'))['changed'], true)
    assert.equal((await ok('run', 'pause', run, '--hard'))['changed'], false)
    const status = await ok('run', 'status', run)
    assert.deepEqual([status['source'], (status['progress'] as { pause: string }).pause], ['run', 'hard'])
    assert.equal((await ok('run', 'set-limits', run, '--concurrency', '2'))['changed'], true)
    assert.equal((await ok('run', 'resume', run))['changed'], true)
    const requeued = await ok('run', 'requeue', run, 'synthetic__eval-000000')
    assert.deepEqual([requeued['changed'], requeued['note']], [false, 'no episode is being played now'])
  })

  test('following a stuck gate shows its finished tasks and its blockers in a log and in a terminal', async () => {
    // Finds images, and is busy with a gate until it is stopped: the run then stays in its gate.
    await using _host = await startSandboxWorker()
    await eventually(async () => assert.match(JSON.stringify((await ok('run', 'status', run))['open']), /gateTasks/))
    // A part of a run is none, although it answers a query of the same name.
    const part = await ok('run', 'status', `train/${run}/gate/${RECIPE}-held-out`)
    assert.deepEqual([part['type'], part['progress']], ['gateTasks', null])
    const follow = [process.execPath, join(root, 'bin/longhaul.mjs'), 'run', 'status', run, '--follow']
    const log = await untilSaid(follow, /\n? +\d+:\d\d {2}gating 8 tasks of \S+ · 0 of 8 tasks/)
    assert.ok(!log.includes(ESCAPE), log)
    const quoted = follow.map((word) => `'${word}'`).join(' ')
    const terminal = await untilSaid(
      ['script', '-qfec', `stty cols 100 rows 24; exec ${quoted}`, '/dev/null'],
      /done +\[-{20}] · 0 of 8 tasks/,
    )
    assert.match(terminal, /now +8 under way(?:, \d of them queued)?; the oldest: gateTask(?: queued)? for /)
    // Drawn again in the same place.
    assert.match(terminal.replaceAll(ESCAPE, '<esc>'), /\r<esc>\[\d+A<esc>\[J/)
    assert.equal((await ok('run', 'cancel', run, '--dry-run'))['note'], null, 'following a run has cancelled it')
  })

  test('without the control worker every command answers from the server, and its order is carried out later', async () => {
    worker.kill('SIGSTOP')
    try {
      const [found, status, blockers, would, requeue, pause, limits] = await Promise.all([
        listed(),
        ok('run', 'status', run),
        longhaul('run', 'blockers', run, '--longer-than', '0'),
        ok('run', 'pause', run, '--hard', '--dry-run'),
        longhaul('run', 'requeue', run, 'synthetic__eval-000000'),
        ok('run', 'pause', run, '--hard'),
        ok('run', 'set-limits', run, '--concurrency', '3'),
      ])
      assert.deepEqual(found, [[run, workflowId]])
      assertFromServer(status)
      assert.equal(blockers.code, 2, blockers.stdout)
      // The stopped worker keeps the run waiting from the first request on, which the other commands make.
      await eventually(async () => {
        const { stdout } = await longhaul('run', 'blockers', run, '--longer-than', '0')
        assert.match(JSON.stringify(JSON.parse(stdout)), /--role control/)
      })
      assert.deepEqual([would['changed'], would['pending']], [null, false])
      assertNotDone(requeue)
      for (const answer of [pause, limits]) assert.deepEqual([answer['changed'], answer['pending']], [null, true])
    } finally {
      worker.kill('SIGCONT')
    }
    await eventually(async () => {
      const progress = await queryProgress({ connection, workflowId })
      assert.deepEqual([progress?.pause, progress?.limits.concurrency], ['hard', 3])
    })
  })

  test('without any worker the commands answer too, and a cancelled run ends when a worker is back', async () => {
    worker.kill('SIGKILL')
    const [found, blockers, requeue, resume] = await Promise.all([
      listed(),
      longhaul('run', 'blockers', run, '--longer-than', '0'),
      longhaul('run', 'requeue', run, 'synthetic__eval-000000'),
      ok('run', 'resume', run),
    ])
    assert.deepEqual(found, [[run, workflowId]])
    // On a busy machine the server was seen to describe a run without its open gate, and without the request to cancel it.
    await eventually(async () => assertFromServer(await ok('run', 'status', run)))
    assert.equal(blockers.code, 2, blockers.stdout)
    assertNotDone(requeue)
    assert.deepEqual([resume['changed'], resume['pending']], [null, true])
    for (const dryRun of [['--dry-run'], []]) {
      assert.partialDeepStrictEqual(await ok('run', 'cancel', run, ...dryRun), { changed: true, note: null })
    }
    await eventually(async () => assert.equal((await ok('run', 'cancel', run))['changed'], false))
    worker = await startWorker()
    // The root goes on to give leases back, for which this namespace has no trainer.
    await eventually(async () => {
      const gate = connection.client.workflow.getHandle(`train/${run}/gate/${RECIPE}-held-out`)
      assert.equal((await gate.describe()).status.name, 'CANCELLED')
    })
    await connection.client.workflow.getHandle(workflowId).terminate('seen')
    const ended = await ok('run', 'pause', run)
    assert.deepEqual([ended['changed'], ended['note']], [false, 'it has ended already: terminated'])
  })

  function assertFromServer(status: Record<string, unknown>): void {
    assert.deepEqual([status['source'], status['progress'], status['status']], ['server', null, 'RUNNING'])
    assert.equal((status['attributes'] as Record<string, string>)['TrainRun'], run)
    assert.match(JSON.stringify(status['open']), /gateTasks/)
  }

  /** The one command that only a worker can do says so, and that nothing was recorded. */
  function assertNotDone({ code, stderr }: { code: number; stderr: string }): void {
    assert.equal(code, 2, stderr)
    assert.match(stderr, /no control worker has answered.*repeat the request/s)
  }

  /**
   * What a command has said by the time it says this; it is then left by one Ctrl-C, which leaves the run alone. `script` gets it as a key:
   * asked by a signal it sends two SIGTERMs at once, and a follower that took both for a second Ctrl-C cancelled the run.
   */
  async function untilSaid([command = '', ...args]: string[], wanted: RegExp): Promise<string> {
    const child = spawn(command, args, {
      env: { ...environment, CI: '', TERM: 'xterm' },
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    let said = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (said += String(data)))
    const ended = once(child, 'exit')
    try {
      await eventually(async () => assert.match(said, wanted))
      // Once more after it was said: a terminal is drawn again every second.
      await sleep(2_000)
    } finally {
      if (command === 'script') child.stdin.write(CTRL_C)
      else child.kill('SIGINT')
      const hung = setTimeout(() => child.kill('SIGKILL'), HANG_MS)
      await ended
      clearTimeout(hung)
    }
    return said
  }

  async function listed(): Promise<[string, string][]> {
    const filter = "GitSha = 'abcdef0123' AND Split = 'synthetic/eval'"
    const { runs } = await ok('run', 'list', '--open', '--filter', filter)
    return (runs as { run: string; workflowId: string }[]).map((one) => [one.run, one.workflowId])
  }

  async function ok(...args: string[]): Promise<Record<string, unknown>> {
    const { code, stdout, stderr } = await longhaul(...args)
    assert.equal(code, 0, `${args.join(' ')}: ${stderr}`)
    return JSON.parse(stdout) as Record<string, unknown>
  }

  function longhaul(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
    const command = [join(root, 'bin', 'longhaul.mjs'), ...args, '--json']
    return new Promise((resolve, reject) => {
      execFile(process.execPath, command, { env: environment, timeout: HANG_MS }, (error, stdout, stderr) => {
        if (error?.killed === true) reject(new Error(`longhaul ${args.join(' ')} hangs`))
        else resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr })
      })
    })
  }

  async function startSandboxWorker(): Promise<AsyncDisposable> {
    const { address, namespace } = connection
    const native = await NativeConnection.connect({ address })
    const worker = await Worker.create({
      connection: native,
      namespace,
      taskQueue: QUEUES.sandbox,
      activities: { checkImages: async () => ({}), gateTask: () => Context.current().cancelled },
      shutdownGraceTime: '1s',
    })
    const running = worker.run()
    return {
      [Symbol.asyncDispose]: async () => {
        worker.shutdown()
        await running
        await native.close()
      },
    }
  }

  async function startWorker(): Promise<ChildProcess> {
    const command = [join(root, 'bin/longhaul.mjs'), 'worker', '--role', 'control']
    const child = spawn(process.execPath, command, { env: environment, stdio: ['ignore', 'ignore', 'inherit'] })
    const wanted = { namespace: connection.namespace, queue: 'control', pid: child.pid ?? 0 }
    for (const deadline = Date.now() + HANG_MS; Date.now() < deadline; await sleep(500)) {
      if (await hasPoller(connection.client.connection as Connection, wanted)) return child
    }
    child.kill('SIGKILL')
    throw new Error('Expected the control worker to poll')
  }
})
