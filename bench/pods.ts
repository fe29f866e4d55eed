/**
 * The cost of a command in a pod, compared with the same command in a container.
 *
 *   npm run bench:pods -- [--rounds 200] [--json] [--out bench/results/pods.json]
 *
 * A turn of a trivial command (`true`) as its caller sees it, including the journal, alternately in a pod of a real cluster on this
 * machine (one web socket through API server and kubelet) and in a container of the engine (one stream of its socket). Every answer
 * is checked. Also measures the time until the runner of a pod and of a container is ready, ten of each alternately. Exit 1 if the
 * median of pods is above 15 ms, 2 if nothing was compared. Needs an engine (DOCKER_HOST), the programs of the cluster (`node
 * test/support/kubernetes/programs.ts`), root and containerd.
 */
import { writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { findKubernetes } from '../test/support/kubernetes/programs.ts'
import { startPodsCluster } from '../test/support/kubernetes/pods-fixture.ts'
import { type ContractFixture, createPlayer, createSandboxFixture, never } from '../test/integration/sandbox-fixture.ts'
import { benchArguments } from './support/arguments.ts'
import { conclude, endWith2OnError } from './support/conclude.ts'
import { findEngine } from './support/find-engine.ts'
import { versions } from './support/versions.ts'

/** Permitted cost of a command, from the issue on the sandbox's design. */
const LIMIT_MS = 15
const STARTS = 10

endWith2OnError()
const { values } = benchArguments({
  options: {
    rounds: { type: 'string', default: '200' },
    json: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
})
const rounds = Number(values.rounds)
const found = await findKubernetes()
if ('reason' in found) throw new Error(found.reason)
const { stop } = await findEngine(`bench-pods-${process.pid}`)
const pods = await startPodsCluster(found.programs)
const fixtures: [name: string, fixture: ContractFixture][] = []
try {
  fixtures.push(['pod', await pods.makeFixture('bench', { 'm.py': 'x = 1\n' })])
  fixtures.push(['container', await createSandboxFixture('bench-pods', { 'm.py': 'x = 1\n' })])
  const times = { pod: [] as number[], container: [] as number[] } as Record<string, number[]>
  const starts = { pod: [] as number[], container: [] as number[] } as Record<string, number[]>
  const players = []
  for (const [name, { host, openInput }] of fixtures) {
    players.push({ name, player: createPlayer(host, await host.open(openInput(), never)) })
  }
  for (let round = -5; round < rounds; round += 1) {
    for (const { name, player } of players) {
      const began = performance.now()
      const { exitCode } = await player.play('true')
      // The first rounds warm up.
      if (round >= 0) times[name]?.push(performance.now() - began)
      if (exitCode !== 0) throw new Error(`${name} answered ${exitCode}`)
    }
  }
  for (let start = 0; start < STARTS; start += 1) {
    for (const [name, { host, openInput }] of fixtures) {
      const began = performance.now()
      const sandbox = await host.open(openInput({ placement: 100 + start }), never)
      starts[name]?.push(performance.now() - began)
      await host.close(sandbox)
    }
  }
  const result = {
    bench: 'pods',
    date: new Date().toISOString(),
    ...versions(),
    loadAverage: loadavg()[0],
    rounds,
    commandMs: { pod: spread(times['pod']), container: spread(times['container']) },
    readyMs: { pod: spread(starts['pod']), container: spread(starts['container']) },
  }
  console.log(JSON.stringify(result, null, values.json ? undefined : 2))
  if (values.out !== undefined) writeFileSync(values.out, `${JSON.stringify(result, null, 2)}\n`)
  process.exitCode = conclude({
    compared: { commands: times['pod']?.length ?? 0 },
    violations: result.commandMs.pod.p50 > LIMIT_MS ? 1 : 0,
  })
} finally {
  for (const [, fixture] of fixtures) await fixture.dispose()
  await pods.close()
  await stop()
}

function spread(values: number[] = []): { p50: number; p95: number } {
  const sorted = values.toSorted((one, other) => one - other)
  const at = (share: number): number => Math.round((sorted[Math.floor(share * sorted.length)] ?? 0) * 100) / 100
  return { p50: at(0.5), p95: at(0.95) }
}
