/** A bench that compared nothing has found nothing wrong either: it must not end as one that held. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { conclude } from '../../bench/support/conclude.ts'

const root = join(import.meta.dirname, '../..')

test('ends with 0 when every comparison held, 1 when one failed, and 2 when nothing of a kind was compared', () => {
  assert.equal(conclude({ compared: { cases: 3, kinds: 1 }, violations: 0 }), 0)
  assert.equal(conclude({ compared: { cases: 3, kinds: 0 }, violations: 2 }), 1)
  assert.equal(conclude({ compared: { cases: 3, kinds: 0 }, violations: 0 }), 2)
  assert.equal(conclude({ compared: { cases: Number.NaN }, violations: 0 }), 2)
})

for (const [what, checkout, said] of [
  ['throws', '/no/such/checkout', /Expected \/no\/such\/checkout to hold/],
  ['has nothing to compare with', '', /names no checkout/],
] as const) {
  test(`a bench that ${what} ends with 2, not with the 1 of a failed comparison`, () => {
    const env = { ...process.env, LONGHAUL_FORK_SOURCE: checkout }
    const args = ['bench/grading-differential.ts', '--kind', 'fork-4.0.3', '--cases', '1']
    const { status, stderr } = spawnSync(process.execPath, args, { cwd: root, env, encoding: 'utf8' })
    assert.equal(status, 2, stderr)
    assert.match(stderr, said)
  })
}
