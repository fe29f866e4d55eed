/**
 * The race: two runs share a suite and gate it in the same minute. Both grade the same patch of the same task, so a name made of
 * these alone is one container: the second run was refused, and removed the first one's container on its way out.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createSandboxFixture, LIMITS, never, type SandboxFixture } from './sandbox-fixture.ts'

let fixture: SandboxFixture

before(async () => {
  fixture = await createSandboxFixture('gate-together', { 'a/m.py': 'x = 1\n' })
})

after(() => fixture.dispose())

test('two runs that gate one task at once each get the result of their own container', async () => {
  const results = await Promise.all(
    ['a', 'b'].map((name) =>
      fixture.host.grade(
        {
          run: `${fixture.run}-${name}`,
          episode: 'gate/suite/task/gold-1',
          owner: 'test',
          role: 'gate',
          image: fixture.image,
          repoDir: '/testbed',
          patch: new Uint8Array(),
          applyCommands: [],
          evalScript: 'sleep 1; echo graded',
          timeoutMs: 60_000,
          limits: LIMITS,
          leaseMs: 60_000,
        },
        never,
      ),
    ),
  )
  for (const { kind, log } of results) {
    assert.equal(kind, 'ran')
    assert.match(Buffer.from(log).toString(), /graded/)
  }
})
