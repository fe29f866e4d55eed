import assert from 'node:assert/strict'
import { test } from 'node:test'
import { codeOf } from '../../../../test/integration/sandbox-fixture.ts'
import { base85, packed, readAuditScript, toAudit } from './audit-patch.ts'
import { MAX_INLINE_BYTES } from './grading.ts'

const NOTHING = Buffer.alloc(0)
const answer = { patch: NOTHING, result: NOTHING, errors: NOTHING, atMs: 3_000 }

test('an audit answer consists of its kind only', () => {
  const { kind, wallMs } = toAudit({ words: ['tested'], ...answer }, 1_000)
  assert.deepEqual([kind, wallMs], ['tested', 2_000])
  for (const words of [['tested', '1e18'], ['resolved'], []]) {
    assert.throws(
      () => toAudit({ words, ...answer }, 1_000),
      (error) => codeOf(error) === 'Grading.Failed',
    )
  }
})

test('the audit script fits into the inline limit, which saves an upload for each grading', async () => {
  assert.ok(packed(await readAuditScript()).length <= MAX_INLINE_BYTES)
})

test('base 85 equals that of Python', () => {
  const known = {
    '': '',
    '61': 'VE',
    '616263': 'VPaz',
    '68656c6c6f': 'Xk~0{Zv',
    fafbfcfdfeff: '`uqI-{{H',
    '00000000': '00000',
  }
  for (const [hex, text] of Object.entries(known)) assert.equal(base85(Buffer.from(hex, 'hex')), text)
})
