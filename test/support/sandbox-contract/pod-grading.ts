/** Graders in pods give the verdicts and audits that graders in containers give, and images are looked into in pods. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Graded } from '../../../src/activities/grading/run-grading.ts'
import { checkImageInPod, imageInPod } from '../../../src/adapters/kubernetes/inspect-image.ts'
import type { PodSandboxHost } from '../../../src/adapters/kubernetes/pod-sandbox-host.ts'
import type { SandboxHost } from '../../../src/contracts/sandbox.types.ts'
import { LIMITS, never } from '../../integration/sandbox-fixture.ts'
import { craftPatch } from '../attacks/crafted-patch.ts'
import { type AttackWorld, createAttackWorld } from '../attacks/world.ts'
import { gradeAndAudit } from '../audit/grade-and-audit.ts'
import { importInto, type PodsCluster } from '../kubernetes/pods-fixture.ts'

const code = (...lines: string[]): string => `${lines.join('\n')}\n`
const REPAIR = code('def add(a, b):', '    return a + b', '', '', 'def double(a):', '    return a * 2')
const WRONG = REPAIR.replace('a + b', 'a * b')

const PATCHES: [what: string, calc: string, verdict: Graded['kind'], audit: string][] = [
  ['a repair', REPAIR, 'resolved', 'agrees'],
  ['a wrong answer', WRONG, 'unresolved', 'void'],
  [
    'an answer that equals everything',
    code('from unittest import mock', 'def add(a, b):', '    return mock.ANY', 'def double(a):', '    return a * 2'),
    'resolved',
    'void',
  ],
  ['a process that ends early', `import os\nos._exit(0)\n${REPAIR}`, 'unresolved', 'void'],
  [
    'a child that keeps every output open',
    `import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(100_000)\n${REPAIR}`,
    'resolved',
    'agrees',
  ],
]

export function describePodGrading(startedCluster: () => PodsCluster): void {
  describe('gradings in pods', () => {
    let world: AttackWorld
    let host: PodSandboxHost
    let count = 0

    before(async () => {
      const pods = startedCluster()
      world = await createAttackWorld('pods-graded')
      const { engine, task } = world
      await importInto(pods.cluster, { engine, image: task.image }, join(pods.cluster.home, 'graded.tar'))
      host = await pods.hostAs('worker')
    })
    after(async () => {
      host?.dispose()
      await world?.dispose()
    })

    function grade(sandbox: SandboxHost, image: string, calc: string): Promise<Graded> {
      count += 1
      return gradeAndAudit(
        { store: world.store, sandbox, ensureImage: async () => undefined },
        {
          run: world.run,
          episode: `pods-graded/${count}`,
          owner: 'test',
          role: 'grader',
          limits: LIMITS,
          patch: craftPatch({ tar: world.repository.tar, edits: { 'calc.py': calc } }),
          task: { ...world.task, image },
          logKey: `logs/${count}.txt`,
          testTimeoutMs: 60_000,
        },
        never,
      )
    }

    for (const [what, calc, verdict, audit] of PATCHES) {
      test(`verdict and audit of ${what} are those of a container`, async () => {
        const { image } = world.task
        const inPod = await grade(host, `docker.io/${image}`, calc)
        assert.deepEqual([inPod.kind, inPod.audit?.outcome], [verdict, audit], JSON.stringify(inPod.audit))
        const inContainer = await grade(world.host, image, calc)
        const said = ({ kind, reason, audit: found }: Graded) => [kind, reason, found?.outcome, found?.reasons]
        assert.deepEqual(said(inPod), said(inContainer))
      })
    }

    test('official steps have the capabilities of commands, the image’s environment, loopback, and nothing of the cluster', async () => {
      const { server } = host.context.cluster
      const result = await host.grade(
        {
          run: world.run,
          episode: 'pods-graded/limits',
          owner: 'test',
          role: 'grader',
          image: `docker.io/${world.task.image}`,
          repoDir: world.task.repoDir,
          patch: new Uint8Array(),
          applyCommands: [],
          evalScript: [
            'grep -E "^(CapEff|CapBnd|NoNewPrivs|Seccomp):" /proc/self/status; grep -c : /proc/net/dev',
            'env | grep -c KUBERNETES; ls /var/run/secrets/kubernetes.io 2>&1 | grep -c "No such file"; echo "$HOME"',
            `python3 -c 'import socket; socket.create_connection(("10.253.0.1", ${new URL(server).port}), 3)' 2>&1 | tail -n 1`,
            'kill -0 1 2>&1; cat /proc/1/environ 2>&1; nsenter --target 1 --net true 2>&1 | grep -c -i "permi"',
          ].join('\n'),
          timeoutMs: 60_000,
          limits: LIMITS,
          leaseMs: 120_000,
        },
        never,
      )
      const said = Buffer.from(result.log).toString()
      const set = '00000000000000eb'
      assert.ok(
        said.startsWith(`CapEff:\t${set}\nCapBnd:\t${set}\nNoNewPrivs:\t1\nSeccomp:\t2\n1\n0\n1\n/root\n`),
        said,
      )
      assert.match(said, /OSError: .*unreachable\n/)
      assert.match(said, /kill: .*[Oo]peration not permitted\ncat: \/proc\/1\/environ: Permission denied\n[1-9]/)
      assert.match(result.machine.engine, /^Kubernetes v\d/)
    })

    test('an image is identified, its repository checked, and another commit refused', async () => {
      const task = { ...world.task, image: `docker.io/${world.task.image}` }
      const asker = { run: world.run, owner: 'test' }
      assert.match((await imageInPod(host.context, task, asker, never)).digest, /^sha256:[0-9a-f]{64}$/)
      assert.equal(await checkImageInPod(host.context, task, asker, never), task.baseCommit)
      const elsewhere = { ...task, baseCommit: '0'.repeat(40) }
      await assert.rejects(checkImageInPod(host.context, elsewhere, asker, never), {
        code: 'Sandbox.ImageUnsuitable',
        message: /does not have the task’s commit/,
      })
    })
  })
}
