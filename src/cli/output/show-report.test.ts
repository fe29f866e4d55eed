import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runKeys } from '../../contracts/keys.ts'
import { test } from 'node:test'
import { storeExportedRun } from '../../../test/support/exported-run.ts'
import { createDirectoryStore } from '../../adapters/artifacts/directory-store.ts'
import { reportOf } from './show-report.ts'
import { putPart } from '../../../test/support/record-examples.ts'

test('a run that lost a record is not called unknown: the error names the record; a run that is not there is', async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'longhaul-report-of-'))
  t.after(() => rm(root, { recursive: true }))
  const store = createDirectoryStore({ root })
  await storeExportedRun(store, 'r')
  await rm(join(root, 'policies/v000000-aaaaaaaa.json'))
  await assert.rejects(reportOf(store, 'r'), {
    code: 'Artifact.Missing',
    details: { key: 'policies/v000000-aaaaaaaa.json' },
  })
  await putPart(store, runKeys.claim('demo-2026-11-20-a'), { run: 'demo-2026-11-20-a' })
  const near =
    /No run called "demo-2026-11-21-a" is in the artifact store at .*; did you mean demo-2026-11-20-a\? Else set LONGHAUL_ARTIFACTS/
  await assert.rejects(reportOf(store, 'demo-2026-11-21-a'), { code: 'Config.NotFound', message: near })
  await assert.rejects(reportOf(store, 'nope'), { code: 'Config.NotFound', message: /No run called "nope"/ })
})
