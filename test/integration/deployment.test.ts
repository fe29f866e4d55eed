/**
 * The code of the control workers changes while an evaluation goes on: two builds as two processes, the second with an episode that
 * the first could not replay. What is open ends in its own build, what comes later begins in the new one, and the old one can go.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Connection } from '@temporalio/client'
import { type DeploymentLook, lookAtDeployment, type LonghaulConnection } from '../../src/client/index.ts'
import { hasPoller } from '../../src/stack/temporal-namespace.ts'
import { buildWorkflowBundle } from '../../src/workers/compose-control.ts'
import { eventually, STORY_MS } from '../support/hang.ts'
import { needsServer, prepareOwnNamespace } from '../support/own-namespace.ts'
import { needsStack } from '../support/pipeline-world.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const cli = join(root, 'bin/longhaul.mjs')

interface Event {
  eventType?: unknown
  workflowTaskCompletedEventAttributes?: { deploymentVersion?: { buildId?: string | null } | null } | null
  timerStartedEventAttributes?: unknown
}

describe('two builds of the control worker', { skip: needsStack || needsServer }, () => {
  let scratch: string
  let connection: LonghaulConnection
  let environment: NodeJS.ProcessEnv
  const workers: ChildProcess[] = []

  before(async () => {
    scratch = await mkdtemp(join(tmpdir(), 'longhaul-builds-'))
    const place = await prepareOwnNamespace('builds', scratch)
    connection = place.connection
    environment = {
      ...place.environment,
      LONGHAUL_HOST_ID: `builds-${process.pid}-${hostname()}`.slice(0, 40),
    }
  })

  after(async () => {
    for (const worker of workers) worker.kill('SIGTERM')
    await Promise.all(workers.map(ended))
    await connection?.close()
    await rm(scratch, { recursive: true, force: true })
  })

  test('refuses to promote without a build, and refuses a name that no worker runs', async () => {
    assert.deepEqual(await lookAtDeployment(connection), { deployment: 'longhaul', current: null, builds: [] })
    const { code, stderr } = await longhaul('deployment', 'promote', 'first')
    assert.equal(code, 1, stderr)
    assert.match(stderr, /has reported the build first; reported builds: none.*LONGHAUL_BUILD_ID=first/s)
  })

  test('a run continues while a new build takes over from the old one', { timeout: STORY_MS }, async () => {
    const { code } = await buildWorkflowBundle()
    const first = await startControl('first', code)
    for (const role of ['sandbox', 'trainer', 'artifacts']) startWorker(role)

    const overrides = ['-c', 'evaluate.attempts=2', '-c', 'rollout.maxOpenEpisodes=3']
    const request = ['evaluate', '--recipe', 'mini', '--run', 'two-builds', '--policy', 'base', '--json', ...overrides]
    const evaluation = longhaul(...request)
    let end: object | null = null
    void evaluation.then((found) => (end = found))
    const meanwhile = async (attempt: () => Promise<void>): Promise<void> => {
      const over = await eventually(async () => end ?? (await attempt(), null))
      assert.equal(over, null, `it has ended: ${JSON.stringify(over)}`)
    }
    // No build is current yet: the run waits, and says for what.
    assert.match((await longhaul('deployment', 'status')).stdout, /no build is current/)
    await meanwhile(async () => {
      const { stdout } = await longhaul('run', 'blockers', 'two-builds', '--longer-than', '0', '--json')
      assert.match(stdout, /longhaul deployment promote first/)
    })
    const would = await longhaul('deployment', 'promote', 'first', '--dry-run', '--json')
    assert.equal((JSON.parse(would.stdout) as { changed: boolean }).changed, true, would.stderr)
    assert.equal((await lookAtDeployment(connection)).current, null)
    await promote('first', true)
    await promote('first', false)

    await meanwhile(async () => assert.ok((await openOf('first')) > 0, 'no episode is open'))
    const second = await startControl('second', withTimerInEpisodes(code))
    const before = await episodesStarted()
    await promote('second', true)
    assert.notEqual((await buildOf('second')).status, 'inactive')

    await meanwhile(async () => assert.equal(await openOf('first'), 0))
    assert.equal((await connection.client.workflow.getHandle('eval/two-builds').describe()).status.name, 'RUNNING')
    first.kill('SIGTERM')
    await ended(first)

    const { code: exitCode, stderr } = await evaluation
    assert.equal(exitCode, 0, stderr)

    const episodes = await episodesStarted()
    assert.equal(episodes.length, 16)
    const seen = new Map(await Promise.all(episodes.map(async (id) => [id, await buildsIn(id)] as const)))
    const counts = { first: 0, second: 0 }
    for (const [id, { builds, hasTimerFirst }] of seen) {
      assert.equal(builds.length, 1, `${id} ran in ${builds.join(' and ')}`)
      const [build = ''] = builds
      assert.equal(hasTimerFirst, build === 'second', `${id} in ${build}`)
      counts[build as 'first' | 'second'] += 1
    }
    assert.ok(counts.first >= 1 && counts.second >= 1, JSON.stringify(counts))
    for (const id of before) assert.deepEqual(seen.get(id)?.builds, ['first'], id)
    const { builds } = await buildsIn('eval/two-builds')
    assert.deepEqual(builds, ['first', 'second'])
    assert.equal(second.exitCode, null)
  })

  /** An episode that begins with a timer does what none of the other build's histories holds. */
  function withTimerInEpisodes(code: string): string {
    const changed = code.replace(
      /async function episode\([^)]*\) \{/,
      '$& await new Promise((resolve) => setTimeout(resolve, 1));',
    )
    assert.notEqual(changed, code)
    return changed
  }

  async function startControl(build: string, code: string): Promise<ChildProcess> {
    const bundle = join(scratch, `${build}.js`)
    await writeFile(bundle, code)
    const worker = startWorker('control', { LONGHAUL_BUILD_ID: build, LONGHAUL_BUNDLE: bundle })
    await eventually(async () => {
      assert.equal(worker.exitCode, null, 'the worker has ended')
      const wanted = { namespace: connection.namespace, queue: 'control', pid: worker.pid ?? 0 }
      assert.ok(await hasPoller(connection.client.connection as Connection, wanted), 'it does not poll yet')
      await buildOf(build)
    })
    return worker
  }

  function startWorker(role: string, more: Record<string, string> = {}): ChildProcess {
    const env = { ...environment, ...more }
    const child = spawn(process.execPath, [cli, 'worker', '--role', role], {
      env,
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    workers.push(child)
    return child
  }

  async function ended(child: ChildProcess): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return
    const hung = setTimeout(() => child.kill('SIGKILL'), 60_000)
    await once(child, 'exit')
    clearTimeout(hung)
  }

  async function promote(build: string, changes: boolean): Promise<void> {
    const { code, stdout, stderr } = await longhaul('deployment', 'promote', build, '--json')
    assert.equal(code, 0, stderr)
    assert.equal((JSON.parse(stdout) as { changed: boolean }).changed, changes)
    assert.equal((await lookAtDeployment(connection)).current, build)
  }

  async function buildOf(build: string): Promise<DeploymentLook['builds'][number]> {
    const found = (await lookAtDeployment(connection)).builds.find((one) => one.build === build)
    if (found === undefined) throw new Error(`the server does not know the build ${build}`)
    return found
  }

  async function openOf(build: string): Promise<number> {
    return (await buildOf(build)).openHere
  }

  async function episodesStarted(): Promise<string[]> {
    const ids: string[] = []
    for await (const { workflowId } of connection.client.workflow.list({ query: "WorkflowType = 'episode'" })) {
      ids.push(workflowId)
    }
    return ids
  }

  /** In the order in which they came, and whether the first command was a timer. */
  async function buildsIn(workflowId: string): Promise<{ builds: string[]; hasTimerFirst: boolean }> {
    const { events } = await connection.client.workflow.getHandle(workflowId).fetchHistory()
    const all = (events ?? []) as Event[]
    const completed = all.flatMap((one) => one.workflowTaskCompletedEventAttributes?.deploymentVersion?.buildId ?? [])
    const firstTask = all.findIndex((one) => Boolean(one.workflowTaskCompletedEventAttributes))
    return { builds: [...new Set(completed)], hasTimerFirst: Boolean(all[firstTask + 1]?.timerStartedEventAttributes) }
  }

  function longhaul(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
    return new Promise((resolve, reject) => {
      execFile(
        process.execPath,
        [cli, ...args],
        { env: environment, timeout: STORY_MS - 60_000 },
        (error, stdout, stderr) => {
          if (error?.killed === true) reject(new Error(`longhaul ${args.join(' ')} hangs`))
          else resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr })
        },
      )
    })
  }
})
