import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { openBuildLog } from './build-log.ts'

test('the log of a build stays when the build is repeated', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'build-log-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const path = join(folder, 'logs', 'task.log')
  for (const line of ['first: secret', 'second']) {
    const log = await openBuildLog(path, (text) => text.replace('secret', '…'))
    log.line(line)
    await log.close()
  }
  assert.deepEqual((await readdir(join(folder, 'logs'))).toSorted(), ['task.log', 'task.log.1'])
  assert.equal(await readFile(path, 'utf8'), 'second\n')
  assert.equal(await readFile(`${path}.1`, 'utf8'), 'first: …\n')
})
