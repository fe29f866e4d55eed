/** Guarantees of pods in addition to those of every sandbox. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { reapOrphaned } from '../../../src/adapters/docker/reaper/reap-orphaned.ts'
import { listHeldPods, listPods, resourcesOfCluster } from '../../../src/adapters/kubernetes/list-pods.ts'
import type { PodSandboxHost } from '../../../src/adapters/kubernetes/pod-sandbox-host.ts'
import type { OpenSandboxInput, SandboxHandle } from '../../../src/contracts/sandbox.types.ts'
import {
  type ContractFixture,
  createPlayer,
  LIMITS,
  type MakeFixture,
  never,
  textOf,
  untilTrue,
} from '../../integration/sandbox-fixture.ts'

export interface PodsBackend {
  makeFixture: MakeFixture
  /** A separate worker, identified by its Temporal namespace's id. */
  makeHost(namespaceId?: string): Promise<PodSandboxHost>
}

export function describePods({ makeFixture, makeHost }: PodsBackend): void {
  describe('pods', () => {
    let fixture: ContractFixture
    let host: PodSandboxHost
    let placement = 0

    before(async () => {
      fixture = await makeFixture('own', { 'm.py': 'x = 1\n' })
      host = await makeHost()
    })
    after(async () => {
      host?.dispose()
      await fixture?.dispose()
    })

    const input = (changes: Partial<OpenSandboxInput> = {}): OpenSandboxInput =>
      fixture.openInput({ placement: ++placement, ...changes })
    const open = (changes: Partial<OpenSandboxInput> = {}): Promise<SandboxHandle> => host.open(input(changes), never)

    test("an agent's pod has no capabilities, privileges or cluster access, and has seccomp, loopback and limits", async () => {
      const sandbox = await open({ limits: { ...LIMITS, cpus: 1 } })
      const { play } = createPlayer(host, sandbox)
      const status = await play(
        'grep -E "^(CapEff|CapBnd|NoNewPrivs|Seccomp):" /proc/self/status; grep -c : /proc/net/dev',
      )
      const capabilities = '00000000000000eb'
      assert.equal(status.text, `CapEff:\t${capabilities}\nCapBnd:\t${capabilities}\nNoNewPrivs:\t1\nSeccomp:\t2\n1\n`)
      const runner = await play('grep -E "^(Uid|CapEff|NoNewPrivs|Seccomp):" /proc/1/status')
      assert.equal(runner.text, `Uid:${'\t65534'.repeat(4)}\nCapEff:\t00000000800000eb\nNoNewPrivs:\t1\nSeccomp:\t2\n`)
      const limits = await play(
        'ulimit -Hn; ulimit -Hc; cd /sys/fs/cgroup; cat memory/memory.limit_in_bytes 2>/dev/null || cat memory.max',
      )
      assert.equal(limits.text, `4096\n0\n${512 * 1024 * 1024}\n`)
      const cluster = await play('env | grep -c KUBERNETES; ls /var/run/secrets/kubernetes.io 2>&1; hostname')
      assert.match(cluster.text, /^0\nls: .*No such file or directory\nsandbox\n$/)
      const server = new URL(host.context.cluster.server)
      const way = `python3 -c 'import socket; socket.create_connection(("10.253.0.1", ${server.port}), 3)' 2>&1 | tail -1`
      assert.match((await play(way)).text, /Network is unreachable/)
      const loopback =
        's=socket.socket(); s.bind(("127.0.0.1", 8080)); s.listen(); socket.create_connection(("127.0.0.1", 8080))'
      assert.equal((await play(`python3 -c 'import socket; ${loopback}; print("talks")'`)).text, 'talks\n')
      const doors = await play('unshare -n true; unshare -U true; mount -t tmpfs x /mnt; kill -9 1; mv /.lh-runner /x')
      assert.equal(doors.text.match(/not permitted|denied|busy/gi)?.length, 5, doors.text)
      await host.close(sandbox)
    })

    test('opening a placement again by any worker, in turn or at once, gives one pod', async () => {
      const asked = input()
      const first = await host.open(asked, never)
      await createPlayer(host, first).play('echo here > /tmp/mark')
      const other = await makeHost()
      try {
        assert.deepEqual(await host.open(asked, never), first)
        assert.deepEqual(await other.open(asked, never), first)
        const request = { turn: 1, token: 'read', after: { turn: 0, token: 'token0' } }
        assert.equal((await createPlayer(other, first).play('cat /tmp/mark', request)).text, 'here\n')
        const both = input()
        const [one, two] = await Promise.all([host.open(both, never), other.open(both, never)])
        assert.deepEqual(one, two)
      } finally {
        other.dispose()
      }
    })

    test('a later worker is answered by the journal, and no turn sends a request to the API server', async () => {
      const sandbox = await open()
      const request = createPlayer(host, sandbox).next('echo kept; date +%N')
      const first = await host.runTurn(sandbox, request, never)
      const other = await makeHost()
      try {
        assert.equal(textOf(await other.runTurn(sandbox, request, never)), textOf(first))
      } finally {
        other.dispose()
        await host.close(sandbox)
      }
    })

    test('history beside HEAD is removed from a repository once, before an agent runs', async () => {
      const asked = input({ scrubHistory: true })
      const sandbox = await host.open(asked, never)
      const player = createPlayer(host, sandbox)
      const { text } = await player.play('git log --all --format=%s; git reflog | wc -l')
      assert.equal(text, 'start\n0\n')
      await player.play('git branch mine')
      assert.deepEqual(await host.open(asked, never), sandbox)
      assert.equal((await player.play('git branch --list mine')).text.trim(), 'mine')
      await host.close(sandbox)
    })

    test('the reaper deletes pods of closed owners and none of another host or stack', async () => {
      const mine = await open()
      const report = async (change: { host?: string; state: 'closed' | 'running' }) =>
        reapOrphaned({
          holder: resourcesOfCluster(host.context.cluster),
          reaper: { host: change.host ?? 'pods-test', namespaceId: 'ours' },
          owners: {
            stateOf: async () => (change.state === 'closed' ? { kind: 'closed' } : { kind: 'running', runId: '' }),
            hasPlacementAfter: async () => false,
          },
          signal: never,
        })
      const owned = await openOwned('ours')
      const foreign = await openOwned('theirs')
      const names = async (): Promise<string[]> =>
        (await listPods(host.context.cluster)).filter(({ state }) => state !== 'ended').map(({ name }) => name)
      await report({ host: 'another', state: 'closed' })
      await report({ state: 'running' })
      for (const { name } of [mine, owned, foreign]) assert.ok((await names()).includes(name), name)
      const held = await listHeldPods(host.context.cluster, 'ours')
      assert.deepEqual(
        held.map(({ name, request }) => [name, request]),
        [[owned.name, { cpus: 0.05, memoryMiB: 64 }]],
      )
      const { removed } = await report({ state: 'closed' })
      assert.ok(removed.some(({ name, why }) => name === owned.name && why === 'owner-closed'))
      await untilTrue(async () => !(await names()).includes(owned.name))
      for (const { name } of [mine, foreign]) assert.ok((await names()).includes(name), name)
      await Promise.all([mine, foreign].map((sandbox) => host.close(sandbox)))
    })

    async function openOwned(namespaceId: string): Promise<SandboxHandle> {
      const owner = await makeHost(namespaceId)
      try {
        return await owner.open(input({ episode: `${fixture.run}/stage/0001/${namespaceId}/00` }), never)
      } finally {
        owner.dispose()
      }
    }
  })
}
