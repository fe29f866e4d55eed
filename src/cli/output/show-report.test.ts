import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { storeExportedRun } from '../../../test/support/exported-run.ts'
import { createDirectoryStore } from '../../adapters/artifacts/directory-store.ts'
import { reportOf } from './show-report.ts'

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
  await assert.rejects(reportOf(store, 'nope'), { code: 'Config.NotFound', message: /No run called "nope"/ })
})
