import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { openBuildLog } from './build-log.ts'

test('the end of a log has no long line and nothing that steers a terminal; the file has all of it', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-log-'))
  t.after(() => rm(folder, { recursive: true }))
  const log = await openBuildLog(join(folder, 'x.log'), (text) => text)
  const lines = ['\u001b[31mred\u001b[0m', 'x'.repeat(5_000), 'a\u0007\u202eb']
  for (const line of lines) log.line(line)
  assert.deepEqual(log.tail().split('\n'), ['red', `${'x'.repeat(300)}…`, 'a  b'])
  await log.close()
  assert.equal(await readFile(log.path, 'utf8'), `${lines.join('\n')}\n`)
})

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
