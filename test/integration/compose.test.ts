/** The Compose file, loaded as `docker compose` loads it (by its own library), and held against the code. No container is started. */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { TARGETS } from '../../infra/images/build.ts'
import { USER } from '../../infra/images/layers.ts'
import { ENVIRONMENT } from '../../src/cli/arguments/environment-example.ts'
import { packageFile } from '../../src/stack/paths.ts'
import { ROLES } from '../../src/workers/run-worker.ts'
import { readWorkerEnvironment } from '../../src/workers/worker-environment.ts'
import { callTool, ensureCompose } from '../support/delivery/tools.ts'
import { withoutPython } from '../support/python.ts'

const FILE = packageFile('infra/compose/compose.yaml')
const ENV = {
  TEMPORAL_DATABASE_PASSWORD: 'database-password',
  LONGHAUL_POLICY_API_KEY: 'policy-key',
  LONGHAUL_DATA: '/srv/longhaul',
  DOCKER_GROUP: '998',
}

interface Service {
  image: string
  user?: string
  read_only?: boolean
  cap_drop?: string[]
  security_opt?: string[]
  init?: boolean
  command: string[] | null
  entrypoint: string[] | null
  environment?: Record<string, string>
  group_add?: string[]
  stop_grace_period?: string
  ports?: { host_ip?: string; published?: string }[]
  privileged?: boolean
  depends_on?: Record<string, { condition: string }>
  healthcheck?: { test: string[]; timeout?: string; start_period?: string }
  restart?: string
  network_mode?: string
  volumes?: { type: string; source: string; target: string }[]
  tmpfs?: string[]
}

describe('the Compose file', { skip: withoutPython }, () => {
  let home: string
  let program: string
  let services: Record<string, Service>
  let volumes: Record<string, unknown>

  before(async () => {
    home = await mkdtemp(join(tmpdir(), 'longhaul-compose-'))
    program = await ensureCompose()
    const { exitCode, stdout, tail } = await load(ENV)
    assert.equal(exitCode, 0, tail)
    ;({ services, volumes } = JSON.parse(stdout) as {
      services: Record<string, Service>
      volumes: Record<string, unknown>
    })
  })

  after(() => rm(home, { recursive: true, force: true }))

  const load = (env: Record<string, string>) =>
    callTool({ program, args: ['--file', FILE, 'config', '--format', 'json'], env, home })
  const ours = (): [string, Service][] =>
    Object.entries(services).filter(([name]) => [...ROLES, 'policy-server'].includes(name))

  test('defines all roles, the policy server, Temporal, its database and its UI', () => {
    assert.deepEqual(
      Object.keys(services).toSorted(),
      [...ROLES, 'policy-server', 'postgres', 'schema', 'temporal', 'namespace', 'ui'].toSorted(),
    )
    for (const role of ROLES) assert.deepEqual(services[role]?.command, ['worker', '--role', role])
    for (const [, { image }] of ours()) {
      const target = /^longhaul\/(\w+):0\.1\.0$/.exec(image)?.[1] ?? ''
      assert.ok((TARGETS as readonly string[]).includes(target), image)
    }
  })

  test('our services run as the user of the images, without privileges and with read-only roots', () => {
    for (const [name, service] of ours()) {
      assert.equal(service.user, `${USER}:${USER}`, name)
      assert.deepEqual(
        [service.read_only, service.cap_drop, service.security_opt, service.init, service.privileged ?? false],
        [true, ['ALL'], ['no-new-privileges:true'], true, false],
        name,
      )
      assert.match(service.stop_grace_period ?? '', /^1m0s$/)
      const sources = (service.volumes ?? []).map(({ source, target }) => [source, target])
      const socket = name === 'sandbox' ? [['/var/run/docker.sock', '/var/run/docker.sock']] : []
      assert.deepEqual(sources, [['/srv/longhaul', '/srv/longhaul'], ...socket])
    }
    assert.deepEqual(services['sandbox']?.group_add, ['998'])
  })

  test('workers start after the namespace exists, and each has variables that it reads', () => {
    const known = new Set(ENVIRONMENT.flatMap(({ variables }) => variables.map(({ name }) => name)))
    for (const role of ROLES) {
      const { environment = {}, depends_on: after, healthcheck } = services[role] as Service
      assert.equal(after?.['namespace']?.condition, 'service_completed_successfully')
      assert.deepEqual(
        Object.keys(environment).filter((name) => !known.has(name)),
        [],
      )
      const read = readWorkerEnvironment({ ...environment, LONGHAUL_CACHE: '/var/lib/longhaul/cache' })
      assert.deepEqual(
        [read.temporal.address, read.artifacts, read.policyApiKey],
        ['temporal:7233', '/srv/longhaul/artifacts', 'policy-key'],
      )
      const asked = /http:\/\/([\d.:]+)\/ready/.exec(healthcheck?.test.join(' ') ?? '')?.[1]
      assert.equal(asked, environment['LONGHAUL_HEALTH_ADDRESS'])
    }
    assert.deepEqual(services['policy-server']?.depends_on ?? {}, {})
  })

  test('the policy server finds the policies that it served again after a restart, which empties scratch folders', () => {
    const { command, volumes: mounts = [] } = services['policy-server'] as Service
    const state = command?.map((word) => /^--state=(.+)$/.exec(word)?.[1]).find((path) => path !== undefined)
    assert.ok(state !== undefined)
    assert.ok(
      mounts.some(({ type, target }) => type === 'bind' && state.startsWith(`${target}/`)),
      state,
    )
  })

  test('the policy server starts like the trainer’s package, at the address that workers have', async () => {
    const { entrypoint, command, healthcheck } = services['policy-server'] as Service
    assert.deepEqual(entrypoint?.slice(1), ['-m', 'longhaul_trainer', 'serve'])
    const source = await readFile(packageFile('trainer/longhaul_trainer/__main__.py'), 'utf8')
    for (const flag of command ?? []) assert.ok(source.includes(`"${flag.split('=')[0]}"`), flag)
    assert.ok(command?.includes('--port=8900'))
    assert.equal(services['control']?.environment?.['LONGHAUL_POLICY_URL'], 'http://policy-server:8900')
    assert.match(healthcheck?.test.join(' ') ?? '', /127\.0\.0\.1:8900\/health/)
  })

  test('long-running services restart by themselves and have a health check that tolerates a slow start', () => {
    const once = ['schema', 'namespace']
    for (const [name, { restart, healthcheck }] of Object.entries(services)) {
      assert.equal(restart, once.includes(name) ? 'on-failure' : 'unless-stopped', name)
      assert.equal(healthcheck !== undefined, ![...once, 'ui'].includes(name), name)
    }
    for (const [name, { healthcheck }] of ours()) {
      assert.deepEqual([healthcheck?.timeout, healthcheck?.start_period], ['30s', '5m0s'], name)
    }
  })

  test('each image has a version, no service uses the host network, and persistent data has named volumes', () => {
    for (const [name, { image, network_mode: network }] of Object.entries(services)) {
      assert.match(image, /:\d+\.\d+[\w.-]*$/, name)
      assert.equal(network, undefined, name)
    }
    assert.deepEqual(Object.keys(volumes), ['database'])
    const kept = Object.entries(services).flatMap(([name, { volumes: mounts = [] }]) =>
      mounts.filter(({ type }) => type === 'volume').map(({ source }) => `${name} ${source}`),
    )
    assert.deepEqual(kept, ['postgres database'])
  })

  test('no port is reachable from other machines', () => {
    const open = Object.entries(services).flatMap(([name, { ports = [] }]) =>
      ports.map((port) => `${name} ${port.host_ip}`),
    )
    assert.deepEqual(open.toSorted(), ['temporal 127.0.0.1', 'ui 127.0.0.1'])
  })

  for (const name of Object.keys(ENV)) {
    test(`refuses to start without ${name} and names it`, async () => {
      const { [name as keyof typeof ENV]: _, ...others } = ENV
      const { exitCode, tail } = await load(others)
      assert.notEqual(exitCode, 0)
      assert.match(tail, new RegExp(`required variable ${name} is missing a value: \\w`))
    })
  }
})
