import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import type { ContainerCreateOptions } from 'dockerode'

import { requireRuntime } from '../../src/adapters/docker/container/create-container.ts'
import { containerName } from '../../src/adapters/docker/container/labels.ts'
import type { Engine } from '../../src/adapters/docker/engine/engine.ts'
import { listSandboxes } from '../../src/adapters/docker/container/list-sandboxes.ts'
import { createDockerSandboxHost } from '../../src/adapters/docker/sandbox/sandbox-host.ts'
import {
  DEVICES_UP,
  LIMITS,
  type SandboxFixture,
  codeOf,
  createPlayer,
  createSandboxFixture,
  never,
} from './sandbox-fixture.ts'

let fixture: SandboxFixture

before(async () => {
  fixture = await createSandboxFixture('hardening', { 'm.py': 'x = 1\n' })
})

after(() => fixture.dispose())

/** The same engine behind something that changes what is asked for, as rewriting tools and proxies do. */
function rewriting(engine: Engine, rewrite: (spec: ContainerCreateOptions) => ContainerCreateOptions): Engine {
  const docker = Object.create(engine.docker) as Engine['docker']
  const createContainer = (spec: ContainerCreateOptions) => engine.docker.createContainer(rewrite(spec))
  return { ...engine, docker: Object.assign(docker, { createContainer }) }
}

function hostOn(engine: Engine, runtime: string | null = null) {
  return createDockerSandboxHost({ engine, hostId: 'test-host', hostQueue: 'sandbox.test', runtime })
}

test('an agent container has no capabilities or new privileges, and has seccomp, loopback only and its limits', async () => {
  const sandbox = await fixture.host.open(fixture.openInput({ limits: { ...LIMITS, cpus: 1 } }), never)
  const { play } = createPlayer(fixture.host, sandbox)
  const status = await play(`grep -E "^(CapEff|CapBnd|NoNewPrivs|Seccomp):" /proc/self/status; ${DEVICES_UP}`)
  const capabilities = '00000000000000eb'
  assert.equal(status.text, `CapEff:\t${capabilities}\nCapBnd:\t${capabilities}\nNoNewPrivs:\t1\nSeccomp:\t2\nlo\n`)
  const runner = await play('grep -E "^(Uid|CapEff|CapInh|NoNewPrivs|Seccomp):" /proc/1/status')
  // The agent's user namespace has no number for the runner's user; its one capability more is that of mapping root.
  assert.equal(
    runner.text,
    `Uid:${'\t65534'.repeat(4)}\nCapInh:\t${'0'.repeat(16)}\nCapEff:\t00000000800000eb\nNoNewPrivs:\t1\nSeccomp:\t2\n`,
  )
  const limits = await play('nproc; ulimit -Hn; ulimit -Hc; cat /proc/self/oom_score_adj')
  assert.equal(limits.text, '1\n4096\n0\n600\n')
  const groups = await play(
    'cd /sys/fs/cgroup; cat memory/memory.limit_in_bytes pids/pids.max 2>/dev/null || cat memory.max pids.max',
  )
  assert.equal(groups.text, `${512 * 1024 * 1024}\n256\n`)
  const tmpfs = await play('awk \'$3 == "tmpfs" && $4 ~ /rw/ && $4 !~ /size=/ { print $2 }\' /proc/mounts')
  // The folder of version 1 hierarchies has none, but what is written there counts as the container's memory.
  assert.match(tmpfs.text, /^(?:\/sys\/fs\/cgroup\n)?$/, 'every writable tmpfs has a size')
  await fixture.host.close(sandbox)
})

test('a request for more processors than the host has gets all of them, and programs see that number', async () => {
  const input = fixture.openInput({ placement: 2, limits: { ...LIMITS, cpus: 512 } })
  const sandbox = await fixture.host.open(input, never)
  const { text } = await createPlayer(fixture.host, sandbox).play('nproc; echo $OMP_NUM_THREADS')
  assert.equal(text, `${fixture.engine.cpus}\n${fixture.engine.cpus}\n`)
  await fixture.host.close(sandbox)
})

const REWRITES: [what: string, rewrite: (spec: ContainerCreateOptions) => ContainerCreateOptions, field: RegExp][] = [
  [
    'drops the limit on processes',
    (spec) => ({ ...spec, HostConfig: { ...spec.HostConfig, PidsLimit: 0 } }),
    /PidsLimit: wanted 256, got nothing/,
  ],
  [
    'mounts the socket of the engine',
    (spec) => ({ ...spec, HostConfig: { ...spec.HostConfig, Binds: ['/tmp:/var/run/docker.sock'] } }),
    /Binds: wanted nothing, got .*docker\.sock/,
  ],
  [
    'gives a network back',
    (spec) => ({ ...spec, NetworkDisabled: false, HostConfig: { ...spec.HostConfig, NetworkMode: 'bridge' } }),
    /NetworkMode: wanted none, got bridge/,
  ],
  [
    'adds a capability and switches seccomp off',
    (spec) => ({
      ...spec,
      HostConfig: { ...spec.HostConfig, CapAdd: ['SYS_ADMIN'], SecurityOpt: ['seccomp=unconfined'] },
    }),
    /CapAdd: .*SYS_ADMIN.*SecurityOpt: .*unconfined/s,
  ],
]

for (const [what, rewrite, field] of REWRITES) {
  test(`fails as Sandbox.Unsafe without running anything when something between us and the engine ${what}`, async () => {
    const host = hostOn(rewriting(fixture.engine, rewrite))
    const input = fixture.openInput({ placement: 3 })
    await assert.rejects(host.open(input, never), (error: Error) => {
      assert.equal(codeOf(error), 'Sandbox.Unsafe')
      assert.match(error.message, field)
      return true
    })
    host.dispose()
    const left = await listSandboxes({ engine: fixture.engine, run: fixture.run })
    assert.deepEqual(left, [])
  })
}

test('a grading container is inspected too', async () => {
  const host = hostOn(rewriting(fixture.engine, (spec) => ({ ...spec, Tty: true })))
  const grading = host.grade(
    {
      run: fixture.run,
      episode: `${fixture.run}/stage/0001/task/09`,
      owner: 'test',
      role: 'grader',
      image: fixture.image,
      repoDir: '/testbed',
      patch: new Uint8Array(),
      applyCommands: [],
      evalScript: 'true',
      timeoutMs: 10_000,
      limits: LIMITS,
      leaseMs: 60_000,
    },
    never,
  )
  await assert.rejects(grading, (error) => codeOf(error) === 'Sandbox.Unsafe')
  host.dispose()
})

test('removes a weaker container that an earlier attempt left under the name and reports the sandbox as lost', async () => {
  const input = fixture.openInput({ placement: 4 })
  // What deviates never gets a name of ours to keep, so the weak one is made by hand under the labels of a good one.
  const good = await fixture.host.open(input, never)
  const { Config: config } = await fixture.engine.docker.getContainer(good.name).inspect()
  await fixture.host.close(good)
  const name = containerName([fixture.run, 'stage/0001/task/00', 'agent', 4])
  assert.equal(name, good.name)
  await fixture.engine.docker.createContainer({
    name,
    Image: fixture.image,
    Cmd: ['/bin/sleep', '60'],
    Labels: config.Labels,
    HostConfig: { NetworkMode: 'none' },
  })
  await assert.rejects(fixture.host.open(input, never), (error: Error) => {
    assert.equal(codeOf(error), 'Sandbox.Lost')
    assert.match(error.message, /CapDrop: wanted/)
    return true
  })
  assert.deepEqual(await listSandboxes({ engine: fixture.engine, run: fixture.run }), [])
})

test('a runtime of the recipe or the host that the engine does not know is one clear error', async () => {
  const input = fixture.openInput({ placement: 5, limits: { ...LIMITS, runtime: 'no-such-runtime' } })
  const ofHost = hostOn(fixture.engine, 'kata-of-the-host')
  const asksFor = (runtime: string) => (error: Error) => {
    assert.equal(codeOf(error), 'Sandbox.RuntimeMissing')
    assert.match(error.message, new RegExp(`runtime=${runtime}`))
    return true
  }
  // The recipe's choice comes before the host's.
  for (const host of [fixture.host, ofHost]) {
    await assert.rejects(host.open(input, never), asksFor('no-such-runtime'))
  }
  const unnamed = fixture.openInput({ placement: 5 })
  await assert.rejects(ofHost.open(unnamed, never), asksFor('kata-of-the-host'))
  // A worker asks before its first sandbox.
  await assert.rejects(requireRuntime(fixture.engine, 'kata-of-the-host'), asksFor('kata-of-the-host'))
  for (const known of ['runc', 'io.containerd.runsc.v1']) await requireRuntime(fixture.engine, known)
  ofHost.dispose()
})
