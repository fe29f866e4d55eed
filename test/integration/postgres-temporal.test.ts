/**
 * Temporal on PostgreSQL, as `longhaul up --temporal postgres` starts it: real server, real database, real workers and containers; only
 * what the model says is scripted.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { changeEnvironment, withoutStack } from '../support/environment.ts'
import { synthesizeSuite } from '../../src/adapters/datasets/synthetic/synthesize.ts'
import { createDirectoryStore } from '../../src/adapters/artifacts/directory-store.ts'
import { connect, createSchedule, type LonghaulConnection, startEvaluation } from '../../src/client/index.ts'
import type { EvaluateResult } from '../../src/contracts/workflows.types.ts'
import { isLonghaulError, type LonghaulError } from '../../src/contracts/errors.ts'
import { isAlive, waitUntilGone } from '../../src/platform/processes.ts'
import { down } from '../../src/stack/down.ts'
import { TEMPORAL_CHECKS } from '../../src/stack/doctor/temporal-checks.ts'
import { parseDatabaseUrl } from '../../src/stack/postgres/database-address.ts'
import {
  describeCluster,
  ensureCluster,
  type PrivateCluster,
  withCluster,
} from '../../src/stack/postgres/private-cluster.ts'
import { prepareSchema } from '../../src/stack/postgres/schema.ts'
import { stackPaths, type StackPaths } from '../../src/stack/paths.ts'
import { isRoot } from '../../src/stack/setup/system-packages.ts'
import { serverFiles } from '../../src/stack/temporal-server-files.ts'
import { inspectNamespace } from '../../src/stack/temporal-namespace.ts'
import { readStackRecord, type StackRecord } from '../../src/stack/stack-record.ts'
import type { TemporalServer } from '../../src/stack/setup/temporal-server.ts'
import { up } from '../../src/stack/up.ts'
import { digestRun, type RunDigest } from '../support/chaos/run-digest.ts'
import {
  messagesOf,
  runs,
  type ScriptedEndpoint,
  startScriptedEndpoint,
} from '../support/chat-endpoint/scripted-endpoint.ts'
import { eventually, HANG_MS } from '../support/hang.ts'
import { freePort } from '../support/loopback.ts'
import { writePartitions } from '../support/write-partitions.ts'
import { findTemporalServer } from '../support/postgres-temporal.ts'
import { type RunningStack, startStack } from '../support/start-stack.ts'
import { withDeadline } from '../support/with-deadline.ts'

const SUITE = { kind: 'synthetic', family: 'one-wrong-line', seed: 2, split: 'eval', count: 2, offset: 0 } as const
const KEY_VARIABLE = 'LONGHAUL_STACK'
const PASSWORD = 'longhaul-test-database-canary'

const found = await findTemporalServer()
const skip = 'reason' in found ? found.reason : false
const run = promisify(execFile)
const context = { signal: new AbortController().signal, log: () => undefined }

/** A stack of the test's own beside the one that the tests share: it sees the engine of that one, where there is one, and nothing else. */
function leaveSharedStack(): () => void {
  return changeEnvironment({ ...withoutStack(), LONGHAUL_POLICY_URL: 'http://127.0.0.1:9' })
}

describe('Temporal on PostgreSQL', { skip }, () => {
  const closers: (() => unknown)[] = []
  let paths: StackPaths
  let stack: RunningStack
  let cluster: PrivateCluster
  let connection: LonghaulConnection
  let endpoint: ScriptedEndpoint
  let undisturbed: RunDigest
  let firstRun: string
  /** Called when the model is asked for its first word of a run. */
  let onFirstRequest: () => Promise<void> = () => Promise.resolve()

  before(async () => {
    if ('reason' in found) return
    const home = await mkdtemp(join(tmpdir(), 'longhaul-postgres-'))
    closers.push(() => rm(home, { recursive: true, force: true }))
    closers.push(leaveSharedStack())
    process.env['LONGHAUL_HOME'] = home
    const name = `postgres-${process.pid}`
    paths = stackPaths({ name, home })
    const tasks = synthesizeSuite(SUITE).map(({ row }) => row)
    // Repairs the first task and gives the second up after a look.
    endpoint = await startScriptedEndpoint((request) => {
      const [, issue, ...rest] = messagesOf(request)
      const place = tasks.findIndex(({ problem_statement: statement }) => issue?.content.includes(statement.trim()))
      const turn = rest.length / 2
      if (turn > 0) return runs('submit')
      const first = runs(place === 0 ? `git apply <<'END'\n${tasks[0]?.patch ?? ''}\nEND` : 'ls')
      return (seen, response) => void onFirstRequest().then(() => first(seen, response))
    })
    closers.push(() => endpoint.close())
    closers.push(() => stopAll(paths))
    stack = await startStack({ name, home, policyServer: false, temporal: 'postgres', quiet: true })
    closers.push(() => stack.stop())
    cluster = await describeCluster(paths)
    connection = await connect({ address: stack.temporalAddress, namespace: stack.namespace })
    closers.push(() => connection.close())
  })

  after(async () => {
    for (const close of closers.toReversed()) await close()
  })

  const overrides = () => ({
    model: { base: 'big-model' },
    data: { heldOut: SUITE },
    scaffold: { profile: 'paper' },
    evaluate: { tasks: 2, attempts: 1, maxTurns: 3, context: 9_000 },
    policyServer: { kind: 'chat', url: endpoint.url, chat: { apiKeyVariable: KEY_VARIABLE } },
  })

  const digest = (name: string): Promise<RunDigest> =>
    digestRun(createDirectoryStore({ root: stack.artifactsDir }), name)

  test('the stack names its store, and namespace, attributes and shards are as a cluster needs them', async () => {
    const record = await recordOf(paths)
    assert.deepEqual(
      record.services.map(({ name, state }) => `${name} ${state}`),
      [
        'postgres',
        'temporal',
        'temporal-ui',
        'worker-control',
        'worker-sandbox',
        'worker-trainer',
        'worker-artifacts',
      ].map((name) => `${name} ready`),
    )
    assert.match(record.facts.temporalStore ?? '', /^PostgreSQL \d+\.\d+ in .*\/postgres$/)
    const facts = await inspectNamespace({ address: stack.temporalAddress, namespace: stack.namespace })
    assert.deepEqual([facts.retentionDays, facts.missingAttributes], [30, []])
    assert.equal(await sql('temporal', 'select count(*) from shards'), '512')
    assert.equal(await writePartitions(connection), 1)
    const page = await fetch(`${stack.uiUrl ?? ''}/api/v1/namespaces/${stack.namespace}`, {
      signal: AbortSignal.timeout(HANG_MS),
    })
    assert.equal(page.status, 200, 'the UI asks another server')
    const told = await TEMPORAL_CHECKS.find(({ name }) => name === 'store')?.run(paths)
    assert.deepEqual([told?.level, told?.value], ['ok', record.facts.temporalStore])
  })

  test('no other user of the machine reaches the database by socket, files or port', async () => {
    assert.equal(await sql('temporal', 'show listen_addresses'), '')
    for (const path of [cluster.folder, cluster.socketFolder]) assert.equal((await stat(path)).mode & 0o077, 0, path)
    const { config } = serverFiles(paths)
    assert.equal((await stat(config)).mode & 0o077, 0, config)
    if (!isRoot()) return
    const { uid, gid } = cluster.runsAs ?? { uid: 0, gid: 0 }
    // Even the user that PostgreSQL runs as is not the one whom it lets in.
    for (const [user, group, why] of [
      [65_534, 65_534, /Permission denied/],
      [uid, gid, /Peer authentication failed/],
    ] as const) {
      const psql = ['psql', '-h', cluster.socketFolder, '-U', 'temporal', '-c', 'select 1', 'temporal']
      const tried = run('setpriv', [`--reuid=${user}`, `--regid=${group}`, '--clear-groups', '--', ...psql], {
        cwd: '/',
        timeout: HANG_MS,
      })
      await assert.rejects(tried, ({ stderr }: { stderr: string }) => why.test(stderr))
    }
  })

  test('a repeated schema setup changes nothing, also under a running server', async () => {
    const look = async (): Promise<string[]> =>
      Promise.all(
        ['temporal', 'temporal_visibility'].flatMap((database) => [
          sql(database, 'select curr_version from schema_version'),
          sql(
            database,
            "select string_agg(new_version, ' ' order by new_version) from schema_update_history where old_version <> '0'",
          ),
          sql(
            database,
            "select md5(string_agg(table_name || column_name || data_type, ' ' order by table_name, column_name)) from information_schema.columns where table_schema = 'public'",
          ),
        ]),
      )
    const before = await look()
    assert.match(before[0] ?? '', /^\d+\.\d+/)
    await prepareSchema({ sqlTool: serverOf().sqlTool, address: cluster.address, context })
    assert.deepEqual(await look(), before)
  })

  test('a scheduled evaluation is played, graded and found by its search attributes', async () => {
    const id = `every-minute-${process.pid}`
    await createSchedule({
      connection,
      id,
      recipe: 'nightly',
      overrides: overrides(),
      cron: '* * * * *',
      jitter: '0s',
      overlap: 'skip',
    })
    const schedule = connection.client.schedule.getHandle(id)
    const workflowId = await eventually(async () => {
      const [action] = (await schedule.describe()).info.recentActions
      assert.ok(action?.action.type === 'startWorkflow', 'it has not fired yet')
      return action.action.workflow.workflowId
    })
    await schedule.delete()
    const result = (await withDeadline(
      connection.client.workflow.getHandle(workflowId).result(),
      HANG_MS,
      'the scheduled evaluation',
    )) as EvaluateResult
    firstRun = result.run
    undisturbed = await digest(firstRun)
    assert.ok(undisturbed.episodes.length === 2 && undisturbed.episodes.every(({ turns }) => turns.length === 2))
    // The visibility store is written after the run.
    await eventually(async () => {
      const roots = await namesOf(
        `WorkflowType = 'evaluate' AND TrainRun = '${firstRun}' AND Model = 'big-model' AND ResolvedRate > 0.4`,
      )
      assert.deepEqual(roots, [workflowId])
      const solved = await namesOf(`TrainRun = '${firstRun}' AND Outcome IS NOT NULL AND Turns = 2`)
      assert.equal(solved.length, 2, solved.join(' '))
    })
    assert.deepEqual(await namesOf(`TrainRun = 'another'`), [])
  })

  test('a run survives killed database and server with the records of the undisturbed run', async () => {
    let isStruck = false
    const struck = Promise.withResolvers<void>()
    onFirstRequest = async () => {
      if (isStruck) return
      isStruck = true
      // Both come back while the turn waits for its answer.
      await Promise.all([stack.kill('postgres'), stack.kill('temporal')]).then(() => struck.resolve(), struck.reject)
    }
    const handle = await startEvaluation({ connection, recipe: 'nightly', overrides: overrides(), fresh: true })
    const ended = await withDeadline(handle.outcome(), HANG_MS, 'the disturbed evaluation')
    await struck.promise
    assert.equal(ended.status, 'completed', JSON.stringify(ended))
    if (ended.status !== 'completed') return
    assert.notEqual(ended.result.run, firstRun)
    assert.deepEqual(await digest(ended.result.run), undisturbed)
    const restarted = (await recordOf(paths)).services.filter(({ restarts }) => restarts > 0)
    assert.deepEqual(
      restarted.map(({ name }) => name),
      ['postgres', 'temporal'],
    )
    assert.match(
      await readFile(join(paths.logsDir, 'postgres.log'), 'utf8'),
      /not properly shut down; automatic recovery/,
    )
  })

  test('up refuses the other store without changes, and down stops the database last and cleanly', async () => {
    const record = await recordOf(paths)
    await assert.rejects(
      up({ name: paths.name, home: homeOf(paths), temporal: 'development', log: () => undefined }),
      (error) => {
        assert.ok(isLonghaulError(error))
        assert.equal(error.code, 'Config.Invalid')
        assert.match(
          error.message,
          /keeps its runs in its own PostgreSQL in .*\/postgres; with --temporal development it would start without them/,
        )
        assert.match(error.message, /leave out --temporal/)
        return true
      },
    )
    assert.deepEqual((await recordOf(paths)).supervisor, record.supervisor)
    const { stopped } = await stack.stop()
    assert.ok(stopped.includes('postgres') && stopped.includes('temporal'))
    for (const { process: identity } of record.services) assert.ok(identity !== null && !isAlive(identity))
    const log = (await readFile(join(paths.logsDir, 'postgres.log'), 'utf8')).trimEnd()
    assert.match(log, /database system is shut down$/)
    await assert.rejects(stat(cluster.socketFolder), { code: 'ENOENT' })
  })

  const namesOf = async (query: string): Promise<string[]> => {
    const names: string[] = []
    for await (const { workflowId } of connection.client.workflow.list({ query })) names.push(workflowId)
    return names
  }

  const sql = async (database: string, statement: string): Promise<string> => {
    const { stdout } = await run('psql', ['-h', cluster.socketFolder, '-U', 'temporal', '-Atc', statement, database], {
      timeout: HANG_MS,
    })
    return stdout.trim()
  }
})

describe('Temporal on an external PostgreSQL', { skip }, () => {
  let home: string
  let restore: () => void
  let cluster: PrivateCluster
  let port: number

  before(async () => {
    if ('reason' in found) return
    home = await mkdtemp(join(tmpdir(), 'longhaul-database-'))
    restore = leaveSharedStack()
    cluster = await describeCluster(stackPaths({ name: 'others', home }))
    await ensureCluster({ cluster, context })
    port = await freePort()
    // A server as a company has one: a port, passwords, and an account that may make no database.
    await writeFile(join(cluster.folder, 'local.conf'), `listen_addresses = '127.0.0.1'\nport = ${port}\n`, {
      mode: 0o644,
    })
    const rules = await readFile(join(cluster.folder, 'pg_hba.conf'), 'utf8')
    await writeFile(join(cluster.folder, 'pg_hba.conf'), `${rules}host all all 127.0.0.1/32 scram-sha-256\n`)
  })

  after(async () => {
    if ('reason' in found) return
    restore()
    await rm(cluster.socketFolder, { recursive: true, force: true })
    await rm(home, { recursive: true, force: true })
  })

  test('wrong password, missing rights and closed port are one error each; own databases serve a stack', async () => {
    const url = (user: string, password: string, at = port): string =>
      `postgres://${user}:${password}@127.0.0.1:${at}/runs`
    const refusal = async (address: string): Promise<LonghaulError> => {
      const tried = prepareSchema({ sqlTool: serverOf().sqlTool, address: parseDatabaseUrl(address), context })
      const error: unknown = await tried.then(
        () => null,
        (reason: unknown) => reason,
      )
      assert.ok(isLonghaulError(error), `${address} was not refused`)
      assert.ok(!error.message.includes(PASSWORD) && !error.message.includes('wrong-one'), error.message)
      return error
    }
    await withCluster({ cluster, context }, async () => {
      const psql = (database: string, ...statements: string[]): Promise<unknown> =>
        run(
          'psql',
          [
            '-h',
            cluster.socketFolder,
            '-p',
            String(port),
            '-U',
            'temporal',
            ...statements.flatMap((one) => ['-c', one]),
            database,
          ],
          { timeout: HANG_MS },
        )
      await psql('postgres', `create role lab login password '${PASSWORD}'`)

      const wrong = await refusal(url('lab', 'wrong-one'))
      assert.equal(wrong.code, 'Config.Invalid')
      assert.match(wrong.message, /refuses the user lab: .*PGPASSWORD or PGPASSFILE\n.*password authentication failed/)
      const poor = await refusal(url('lab', PASSWORD))
      assert.match(
        poor.message,
        /lab may not create the database runs: CREATE DATABASE runs OWNER lab; and the same for runs_visibility/,
      )
      const closed = await refusal(url('lab', PASSWORD, await freePort()))
      assert.match(closed.message, /does not answer: check that it runs/)

      await psql('postgres', 'create database runs owner lab', 'create database runs_visibility owner lab')
      const name = `database-${process.pid}`
      const paths = stackPaths({ name, home })
      const log = (): undefined => undefined
      try {
        const { stack } = await up({ name, home, roles: [], policyServer: false, temporal: url('lab', PASSWORD), log })
        assert.equal(stack.facts.temporalStore, `PostgreSQL at 127.0.0.1:${port}, databases runs and runs_visibility`)
        assert.deepEqual(
          stack.services.map(({ name: service }) => service),
          ['temporal', 'temporal-ui'],
        )
        const { retentionDays } = await inspectNamespace({ address: stack.facts.temporalAddress, namespace: 'default' })
        assert.equal(retentionDays, 30)
        // The password is where the server reads it, and nowhere that others can read.
        for (const file of [paths.configFile, paths.recordFile])
          assert.ok(!(await readFile(file, 'utf8')).includes(PASSWORD), file)
        for (const { process: one } of stack.services) {
          assert.ok(one !== null && !(await readFile(`/proc/${one.pid}/cmdline`, 'utf8')).includes(PASSWORD))
        }
        assert.ok(!(await readFile(join(paths.logsDir, 'temporal.log'), 'utf8')).includes(PASSWORD))
        const again = await up({ name, home, roles: [], policyServer: false, log })
        assert.equal(again.changed, false, 'a start without --temporal forgot the store')
        assert.deepEqual(again.differs, [])
        const lines: string[] = []
        const note = (line: string): unknown => lines.push(line)
        const restore = changeEnvironment({ LONGHAUL_LEASE_S: '120' })
        const other = await up({ name, home, roles: ['control'], policyServer: false, log: note }).finally(restore)
        assert.deepEqual([other.changed, other.differs], [false, ['--roles', 'LONGHAUL_LEASE_S']])
        assert.match(lines.join('\n'), /started with other values of --roles, LONGHAUL_LEASE_S.*longhaul down/)
      } finally {
        await stopAll(paths)
      }
    })
  })
})

function serverOf(): TemporalServer {
  assert.ok('server' in found)
  return found.server
}

async function recordOf(paths: StackPaths): Promise<StackRecord> {
  const record = await readStackRecord(paths.recordFile)
  assert.ok(record !== null)
  return record
}

function homeOf({ dataDir }: StackPaths): string {
  return join(dataDir, '..', '..')
}

async function stopAll(paths: StackPaths): Promise<void> {
  const record = await readStackRecord(paths.recordFile)
  await down({ name: paths.name, home: homeOf(paths) })
  for (const one of record?.services ?? []) {
    if (one.process !== null) assert.ok(await waitUntilGone({ identity: one.process, timeoutMs: HANG_MS }), one.name)
  }
}
