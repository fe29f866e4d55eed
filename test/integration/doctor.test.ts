/**
 * `longhaul doctor`: each finding is made real (a server without the namespace, a read-only store, no engine, no Python, dead locks),
 * `--fix` mends what it promises, and a second run says that nothing was to do.
 */
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { after, afterEach, before, beforeEach, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { changeEnvironment, withoutStack } from '../support/environment.ts'
import { connectEngine } from '../../src/adapters/docker/engine/engine.ts'
import { imageExists } from '../../src/adapters/docker/images/images.ts'
import { readBaseImageRecipe } from '../../src/adapters/docker/images/base-image-rootfs.ts'
import { LABELS, PROJECT } from '../../src/adapters/docker/container/labels.ts'
import { connect } from '../../src/client/index.ts'
import { withDirectoryLock } from '../../src/platform/directory-lock.ts'
import type { Check } from '../../src/stack/doctor/finding.ts'
import type { MendResult } from '../../src/stack/doctor/doctor.ts'
import { compareClocks } from '../../src/stack/doctor/temporal-checks.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { preparedPython } from '../../src/stack/setup/python-env.ts'
import { inspectNamespace } from '../../src/stack/temporal-namespace.ts'
import { namespaceIdOf } from '../../src/workers/workflow-owners.ts'
import { needsChaos } from '../support/chaos/chaos-stack.ts'
import { startTestEngine } from '../support/chaos/private-test-engine.ts'
import { longhaul } from '../support/command-line.ts'
import { listenOnLoopback } from '../support/loopback.ts'
import { connectToOwnNamespace, needsServer } from '../support/own-namespace.ts'

let home: string
let own: NodeJS.ProcessEnv
let restore: () => void

before(async () => {
  home = await mkdtemp(join(tmpdir(), 'longhaul-doctor-'))
})

after(() => rm(home, { recursive: true, force: true }))

beforeEach(async () => {
  own = { ...process.env }
  // A machine of its own: no stack, no cache, and nothing that the stack of this test run says.
  const fresh = await mkdtemp(join(home, 'machine-'))
  restore = changeEnvironment({
    ...withoutStack(),
    LONGHAUL_STACK: `doctor-${process.pid}`,
    LONGHAUL_HOME: join(fresh, 'data'),
    LONGHAUL_CACHE: join(fresh, 'cache'),
    LONGHAUL_ARTIFACTS: join(fresh, 'artifacts'),
    LONGHAUL_POLICY_URL: 'http://127.0.0.1:1',
  })
  useServer(own['LONGHAUL_NAMESPACE'] ?? 'default')
})

afterEach(() => restore())

async function examine(...args: string[]) {
  const { exitCode, stdout, stderr } = await longhaul('doctor', '--json', ...args)
  assert.notEqual(stdout, '', stderr)
  const result = JSON.parse(stdout) as MendResult
  const of = (title: string): Check => {
    const found = result.checks.find(({ group, name }) => `${group}/${name}` === title)
    assert.ok(found !== undefined, `${title} is not looked at: ${stdout}`)
    return found
  }
  return { exitCode, result, of }
}

const fixed = ({ mended }: MendResult, title: string) => mended.filter(({ check }) => check === title)

/** Points this process at the server of the test run, whose own namespace it leaves alone. */
function useServer(namespace: string): void {
  process.env['TEMPORAL_ADDRESS'] = own['LONGHAUL_TEMPORAL_ADDRESS'] ?? '127.0.0.1:1'
  process.env['LONGHAUL_NAMESPACE'] = namespace
  delete process.env['TEMPORAL_NAMESPACE']
}

async function facts(namespace: string) {
  return inspectNamespace({ address: own['LONGHAUL_TEMPORAL_ADDRESS'] ?? '', namespace })
}

test('a role is checked only for what its worker needs', async () => {
  const titles = async (...args: string[]) =>
    (await examine(...args)).result.checks.map(({ group, name }) => `${group}/${name}`)
  const [control, sandbox, trainer, artifacts, all, stack] = [
    await titles('--role', 'control'),
    await titles('--role', 'sandbox'),
    await titles('--role', 'trainer'),
    await titles('--role', 'artifacts'),
    await titles('--role', 'all'),
    await titles(),
  ]
  assert.deepEqual(
    [control, trainer, artifacts].map((names) => names.filter((name) => name.startsWith('docker/'))),
    [[], [], []],
  )
  assert.ok(sandbox.includes('docker/engine') && !sandbox.includes('work/Python'))
  assert.ok(trainer.includes('work/Python') && trainer.includes('work/policy server'))
  assert.deepEqual(control, artifacts)
  for (const name of ['runtime/environment', 'temporal/server', 'work/store', 'work/free disk', 'temporal/clock'])
    assert.ok(control.includes(name), name)
  assert.deepEqual([...new Set([...sandbox, ...trainer])].toSorted(), all.toSorted())
  assert.ok(stack.includes('temporal/workers') && !stack.includes('runtime/environment'))
})

test('an unreachable server and a missing variable each fail with their fix, and doctor exits with 2', async () => {
  delete process.env['LONGHAUL_ARTIFACTS']
  process.env['TEMPORAL_ADDRESS'] = '127.0.0.1:1'
  const { exitCode, of } = await examine('--role', 'artifacts')
  assert.equal(exitCode, 2)
  assert.match(of('temporal/server').value, /127\.0\.0\.1:1: nothing listens there/)
  assert.match(of('temporal/server').fix, /start that server/)
  assert.deepEqual(
    [of('runtime/environment').level, /LONGHAUL_ARTIFACTS/.test(of('runtime/environment').value)],
    ['fail', true],
  )
})

test('--dry-run reports missing search attributes, --fix registers them, and the next run finds nothing to fix', {
  skip: needsServer,
}, async (t) => {
  process.env['LONGHAUL_TEMPORAL_ADDRESS'] = own['LONGHAUL_TEMPORAL_ADDRESS']
  const connection = await connectToOwnNamespace('doctor', { isBare: true })
  t.after(() => connection.close())
  delete process.env['LONGHAUL_TEMPORAL_ADDRESS']
  const { namespace } = connection
  const { missingAttributes: lacking } = await facts(namespace)
  assert.notEqual(lacking.length, 0)
  useServer(namespace)

  const looked = await examine('--role', 'control')
  assert.deepEqual([looked.exitCode, looked.of('temporal/server').level], [2, 'fail'])
  assert.match(looked.of('temporal/server').value, new RegExp(`lacks ${lacking.join(', ')}`))
  assert.equal(looked.of('temporal/server').fix, 'longhaul doctor --role control --fix')
  const dry = await examine('--role', 'control', '--fix', '--dry-run')
  assert.match(fixed(dry.result, 'temporal/server')[0]?.did ?? '', /^register the search attributes /)
  assert.deepEqual([dry.exitCode, (await facts(namespace)).missingAttributes], [2, lacking])

  const mended = await examine('--role', 'control', '--fix')
  assert.match(fixed(mended.result, 'temporal/server')[0]?.did ?? '', /^registered the search attributes /)
  assert.deepEqual([mended.exitCode, (await facts(namespace)).missingAttributes], [0, []])
  const again = await examine('--role', 'control', '--fix')
  assert.deepEqual([again.exitCode, again.result.mended, again.result.failed], [0, [], []])
  assert.match(
    (await longhaul('doctor', '--role', 'control', '--fix')).stdout,
    /^there was nothing to fix automatically$/m,
  )
})

test('--fix creates a namespace that the server does not know and changes no other', {
  skip: needsServer,
}, async () => {
  const namespace = `doctor-made-${randomUUID().slice(0, 8)}`
  useServer(namespace)
  const looked = await examine('--role', 'artifacts')
  assert.match(looked.of('temporal/server').value, new RegExp(`has no namespace ${namespace}`))
  const before = await facts(own['LONGHAUL_NAMESPACE'] ?? 'default')
  const mended = await examine('--role', 'artifacts', '--fix')
  assert.equal(mended.exitCode, 0, JSON.stringify(mended.result))
  const made = await facts(namespace)
  assert.deepEqual([made.missingAttributes, made.retentionDays], [[], 30])
  assert.deepEqual(await facts(own['LONGHAUL_NAMESPACE'] ?? 'default'), before)
})

test("compares the clock with the server's: equal, a minute off and an hour off", {
  skip: needsServer,
}, async () => {
  useServer(own['LONGHAUL_NAMESPACE'] ?? 'default')
  const off = (ms: number) => compareClocks(stackPaths(), () => Date.now() + ms)
  const [same, ahead, behind] = [await off(0), await off(60_000), await off(-3_600_000)]
  assert.deepEqual([same.level, ahead.level, behind.level], ['ok', 'warn', 'fail'])
  assert.match(same.value, /, equal to that of \S+$/)
  assert.match(ahead.value, /, (5[5-9]|6\d) s ahead of /)
  assert.match(behind.value, /, 3[56]\d\d s behind /)
})

test('names the path of an unwritable store and leaves a good one unchanged', async (t) => {
  const artifacts = process.env['LONGHAUL_ARTIFACTS'] ?? ''
  await mkdir(artifacts)
  const good = await examine('--role', 'control')
  assert.equal(good.of('work/store').level, 'ok')
  assert.deepEqual(await readdir(artifacts), ['.tmp'])
  if (process.getuid?.() === 0) {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'ro', 'longhaul-test', artifacts])
    t.after(() => execFileSync('umount', ['-l', artifacts]))
  } else await chmod(artifacts, 0o555)
  const bad = await examine('--role', 'control')
  assert.deepEqual([bad.exitCode, bad.of('work/store').level], [2, 'fail'])
  assert.match(bad.of('work/store').value, new RegExp(`^${artifacts}: Artifact\\.Unavailable: `))
  assert.match(bad.of('work/store').fix, /LONGHAUL_ARTIFACTS/)
})

test('reports a missing or mistyped store path without creating it', async () => {
  const artifacts = join(home, 'mistyped/store')
  process.env['LONGHAUL_ARTIFACTS'] = artifacts
  const { of } = await examine('--role', 'control')
  assert.deepEqual(
    [of('work/store').level, of('work/store').value],
    ['ok', `${artifacts}: absent, made by the first start`],
  )
  await assert.rejects(readdir(join(home, 'mistyped')), { code: 'ENOENT' })
  await assert.rejects(readdir(stackPaths().cacheDir), { code: 'ENOENT' })
})

test('a sandbox worker fails without an engine at the named socket, and dependent checks are unknown', async () => {
  process.env['DOCKER_HOST'] = `unix://${home}/no-engine.sock`
  const { exitCode, of } = await examine('--role', 'sandbox')
  assert.equal(exitCode, 2)
  assert.match(of('docker/engine').value, /No Docker engine answered.*no-engine\.sock/)
  assert.match(of('docker/engine').fix, /DOCKER_HOST/)
  for (const name of ['storage', 'limits', 'leftovers', 'image room', 'epoll watches', 'sandbox image'])
    assert.deepEqual([of(`docker/${name}`).level, of(`docker/${name}`).value.includes('unknown')], ['warn', true], name)
  assert.equal(
    (await examine('--role', 'trainer')).result.checks.some(({ group }) => group === 'docker'),
    false,
  )
})

test('a missing Python and one without the packages are each reported with the command that fixes them', async () => {
  process.env['LONGHAUL_PYTHON'] = join(home, 'no', 'python')
  const absent = await examine('--role', 'trainer', '--fix', '--dry-run')
  assert.deepEqual([absent.exitCode, absent.of('work/Python').level], [2, 'fail'])
  assert.match(absent.of('work/Python').value, /is not there$/)
  assert.match(fixed(absent.result, 'work/Python')[0]?.did ?? '', /^make the Python environment/)
  process.env['LONGHAUL_PYTHON'] = '/usr/bin/python3'
  const bare = await examine('--role', 'trainer')
  assert.match(bare.of('work/Python').value, /lacks .*torch/)
  // Where an environment is there already, nothing has to be made: the variable has to name it.
  const cache = own['LONGHAUL_CACHE'] ?? stackPaths({ env: { HOME: own['HOME'] } }).cacheDir
  process.env['LONGHAUL_CACHE'] = cache
  const made = await examine('--role', 'trainer')
  assert.match(made.of('work/Python').fix, /^export LONGHAUL_PYTHON=\S+\/bin\/python$/)
  process.env['LONGHAUL_PYTHON'] = made.of('work/Python').fix.replace('export LONGHAUL_PYTHON=', '')
  assert.notEqual((await examine('--role', 'trainer')).of('work/Python').level, 'fail')
})

/**
 * Two commands make one environment: `up` holds its lock, `doctor --fix` waits, and `up` has made it. The environment is that of this
 * machine, since one of 5 GB is not made again for a test.
 */
test('--fix creates the missing Python environment by its command and waits for it', async () => {
  const made = await preparedPython(own['LONGHAUL_CACHE'] ?? stackPaths({ env: { HOME: own['HOME'] } }).cacheDir)
  assert.ok(made !== null, 'npm test sets it up')
  const environment = dirname(dirname(made))
  const { cacheDir } = stackPaths()
  const here = join(cacheDir, 'python', basename(environment))
  await mkdir(dirname(here), { recursive: true })
  const looked = await examine('--role', 'trainer')
  assert.deepEqual([looked.of('work/Python').level, await preparedPython(cacheDir)], ['warn', null])
  const mending = await withDirectoryLock({ path: `${here}.lock` }, async () => {
    let isOver = false
    const mended = examine('--role', 'trainer', '--fix').finally(() => {
      isOver = true
    })
    await Promise.race([mended, sleep(2_000)])
    assert.equal(isOver, false, 'it waits')
    await symlink(environment, here)
    return { mended }
  })
  const { result, of } = await mending.mended
  const python = join(here, 'bin', 'python')
  assert.deepEqual(fixed(result, 'work/Python'), [{ check: 'work/Python', did: `made ${python}` }])
  // Whether torch loads in time is another finding.
  assert.match(of('work/Python').value, new RegExp(`^${python}[,:]`))
  assert.deepEqual(fixed((await examine('--role', 'trainer', '--fix')).result, 'work/Python'), [])
})

test('--fix without a package index reports the failure, accepts no partial environment and exits with 2', async () => {
  const dead = 'http://127.0.0.1:1/simple/'
  Object.assign(process.env, {
    PIP_INDEX_URL: dead,
    PIP_EXTRA_INDEX_URL: dead,
    PIP_FIND_LINKS: '',
    PIP_NO_CACHE_DIR: '1',
  })
  Object.assign(process.env, { PIP_RETRIES: '0', PIP_CONFIG_FILE: '/dev/null' })
  const { exitCode, result } = await examine('--role', 'trainer', '--fix')
  const [failed, ...others] = result.failed.filter(({ check }) => check === 'work/Python')
  assert.deepEqual(others, [])
  assert.match(failed?.error ?? '', /^Installing the pinned Python packages: .*ended with 1/)
  assert.equal(exitCode, 2)
  assert.equal(await preparedPython(stackPaths().cacheDir), null)
})

test('--fix builds a missing sandbox image, and a second run finds nothing to fix', {
  skip: needsChaos,
}, async (t) => {
  // The archive of the image is kept for all engines of a machine.
  process.env['LONGHAUL_CACHE'] = own['LONGHAUL_CACHE'] ?? stackPaths({ env: { HOME: own['HOME'] } }).cacheDir
  // Right below: the engine's sockets lie deep in it, and the path of a socket has 107 characters at most.
  const folder = await mkdtemp(join(tmpdir(), 'e-'))
  const imageCache = join(stackPaths().cacheDir, 'images')
  const other = await startTestEngine({ folder, imageCache, log: () => undefined })
  t.after(async () => {
    await other.close()
    await rm(folder, { recursive: true, force: true })
  })
  process.env['DOCKER_HOST'] = other.host
  const { tag } = await readBaseImageRecipe()
  const isThere = () => imageExists({ engine: other.engine, image: tag })
  await other.engine.docker.getImage(tag).remove({ force: true })

  const looked = await examine('--role', 'sandbox')
  const { level, value, fix } = looked.of('docker/sandbox image')
  assert.deepEqual([level, value, fix], ['warn', `${tag} is missing`, 'longhaul doctor --role sandbox --fix'])
  const dry = await examine('--role', 'sandbox', '--fix', '--dry-run')
  assert.deepEqual(
    [fixed(dry.result, 'docker/sandbox image')[0]?.did, await isThere()],
    [`make ${tag} in ${other.host}`, false],
  )
  const mended = await examine('--role', 'sandbox', '--fix')
  assert.deepEqual(fixed(mended.result, 'docker/sandbox image'), [
    { check: 'docker/sandbox image', did: `made ${tag} in ${other.host}` },
  ])
  assert.deepEqual([mended.of('docker/sandbox image').level, await isThere()], ['ok', true])
  assert.deepEqual(fixed((await examine('--role', 'sandbox', '--fix')).result, 'docker/sandbox image'), [])
})

test('distinguishes a policy server that does not answer, one that does, and one that refuses the key', async (t) => {
  assert.match((await examine('--role', 'trainer')).of('work/policy server').value, /127\.0\.0\.1:1 does not answer/)
  let status = 200
  const server = createServer((_, response) => void response.writeHead(status).end())
  t.after(() => server.close())
  process.env['LONGHAUL_POLICY_URL'] = `http://127.0.0.1:${await listenOnLoopback(server)}`
  assert.equal((await examine('--role', 'sandbox')).of('work/policy server').level, 'ok')
  status = 401
  assert.match((await examine('--role', 'sandbox')).of('work/policy server').fix, /LONGHAUL_POLICY_API_KEY/)
})

test('--fix removes locks of dead owners and keeps those of live ones', async () => {
  const { cacheDir, dataDir } = stackPaths()
  const child = spawn(process.execPath, ['-e', ''])
  await once(child, 'close')
  const dead = [join(cacheDir, 'images', 'a.lock'), join(dataDir, 'up.lock')]
  for (const path of dead) {
    await mkdir(path, { recursive: true })
    await writeFile(join(path, 'holder'), `${child.pid} 1`)
  }
  await withDirectoryLock({ path: join(cacheDir, 'held.lock') }, async () => {
    const looked = await examine('--role', 'control')
    assert.match(looked.of('work/locks').value, /^2 without an owner, such as /)
    const mended = await examine('--role', 'control', '--fix')
    assert.deepEqual(
      fixed(mended.result, 'work/locks').map(({ did }) => did),
      ['removed 2 locks whose owners are gone'],
    )
    assert.equal(mended.of('work/locks').value, '1 held, none without an owner')
    assert.deepEqual(fixed((await examine('--role', 'control', '--fix')).result, 'work/locks'), [])
  })
})

test('--fix removes an overdue container of this host and keeps one of another namespace', {
  skip: needsServer,
}, async (t) => {
  const namespace = own['LONGHAUL_NAMESPACE'] ?? 'default'
  useServer(namespace)
  const host = `doctor-${randomUUID().slice(0, 8)}`
  process.env['LONGHAUL_HOST_ID'] = host
  const { docker } = await connectEngine()
  const connection = await connect({ namespace })
  const namespaceId = (await namespaceIdOf(connection.client.connection, namespace)) ?? ''
  await connection.close()
  const overdue = async (what: string): Promise<string> => {
    const container = await docker.createContainer({
      Image: own['LONGHAUL_BASE_IMAGE'] ?? '',
      Cmd: ['true'],
      Labels: {
        [LABELS.project]: PROJECT,
        [LABELS.host]: host,
        [LABELS.namespaceId]: what,
        [LABELS.owner]: 'never-started',
        [LABELS.created]: String(Date.now() - 7_200_000),
        [LABELS.maxLifeMs]: '3600000',
      },
      HostConfig: { NetworkMode: 'none' },
    })
    t.after(() => container.remove({ force: true }).catch(() => undefined))
    return container.id
  }
  // The sweep goes by the records of runs.
  await mkdir(process.env['LONGHAUL_ARTIFACTS'] ?? '')
  const [mine, foreign] = [await overdue(namespaceId), await overdue(randomUUID())]
  const looked = await examine('--role', 'sandbox')
  assert.equal(looked.of('docker/leftovers').level, 'warn')
  const isThere = (id: string) =>
    docker
      .getContainer(id)
      .inspect()
      .then(
        () => true,
        () => false,
      )
  await examine('--role', 'sandbox', '--fix', '--dry-run')
  assert.deepEqual([await isThere(mine), await isThere(foreign)], [true, true])
  const mended = await examine('--role', 'sandbox', '--fix')
  assert.match(fixed(mended.result, 'docker/leftovers')[0]?.did ?? JSON.stringify(mended.result), /^removed 1 /)
  assert.deepEqual([await isThere(mine), await isThere(foreign)], [false, true])
  assert.deepEqual(fixed((await examine('--role', 'sandbox', '--fix')).result, 'docker/leftovers'), [])
})

test('refuses --dry-run without --fix, and an unknown role, as usage errors', async () => {
  assert.equal((await longhaul('doctor', '--dry-run')).exitCode, 1)
  assert.equal((await longhaul('doctor', '--role', 'gpu')).exitCode, 1)
})
