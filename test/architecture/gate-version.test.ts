import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { readAuditScript } from '../../src/adapters/docker/grader/audit-patch.ts'
import { sha256Hex } from '../../src/platform/hash.ts'

/** The audit that this version of gates was made with, without its comments. */
const AUDIT = { gateVersion: 14, sha256: '6e2ffd6161bc5bf4' }

test('a changed audit has its own gate version, or was found to judge as before', async () => {
  const source = readFileSync(new URL('../../src/activities/gate/gate-grading.ts', import.meta.url), 'utf8')
  const gateVersion = Number(/^const GATE_VERSION = (\d+)$/m.exec(source)?.[1])
  const sha256 = sha256Hex(await readAuditScript()).slice(0, 16)
  assert.deepEqual(
    { gateVersion, sha256 },
    AUDIT,
    'The audit has changed. If gates may judge otherwise now, raise GATE_VERSION, so that tasks are gated again; then note both here.',
  )
})
