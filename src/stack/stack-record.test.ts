import assert from 'node:assert/strict'
import { access, mkdir, mkdtemp, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, type TestContext, test } from 'node:test'
import { useEnvironment, withoutStack } from '../../test/support/environment.ts'
import { bareStackFacts } from '../../test/support/stack-facts.ts'
import { identify, thisProcessSpace } from '../platform/processes.ts'
import { down } from './down.ts'
import { stackPaths } from './paths.ts'
import { stackStatus, type StackRecord } from './stack-record.ts'
import { up } from './up.ts'

// `npm test` names its own stack, which would be asked for instead of the default one.
useEnvironment({ after }, withoutStack())

/** A data directory that machines share, as a home on a file server, with the record of a stack. */
async function shareWith(t: TestContext, changes: Partial<StackRecord>): Promise<{ home: string; recordFile: string }> {
  const home = await mkdtemp(join(tmpdir(), 'longhaul-shared-'))
  t.after(() => rm(home, { recursive: true, force: true }))
  const { dataDir, recordFile } = stackPaths({ home })
  await mkdir(dirname(recordFile), { recursive: true })
  const record: StackRecord = {
    version: 1,
    startedAt: '2026-11-30T00:00:00.000Z',
    machine: { host: 'another-machine', bootId: 'of that one', pidNamespace: 'pid:[1]' },
    // Of no process here, as the ids of another machine.
    supervisor: { ...identify(process.pid), startTime: '1' },
    fingerprint: 'x',
    ownsTemporal: true,
    ownsEngine: false,
    facts: bareStackFacts(dataDir, 'default'),
    runDir: home,
    services: [],
    ...changes,
  }
  await writeFile(recordFile, JSON.stringify(record))
  return { home, recordFile }
}

const silence = (recordFile: string): Promise<void> => {
  const then = new Date(Date.now() - 10 * 60_000)
  return utimes(recordFile, then, then)
}

test('a stack that another machine runs is not started here, not stopped, and its record stays', async (t) => {
  const { home, recordFile } = await shareWith(t, {})
  const message = /the stack "default" of this data directory runs on another-machine \(last sign of life \d+ s ago\)/
  await assert.rejects(up({ home }), { code: 'Config.Invalid', message })
  await assert.rejects(down({ home }), { code: 'Config.Invalid', message })
  const { state, elsewhere } = (await stackStatus({ home })) as { state: string; elsewhere?: { host: string } }
  assert.deepEqual([state, elsewhere?.host], ['down', 'another-machine'])
  await access(recordFile)
})

test('a stack of a machine that fell silent is started here only after down has forgotten it', async (t) => {
  const { home, recordFile } = await shareWith(t, {})
  await silence(recordFile)
  await assert.rejects(up({ home }), {
    code: 'Config.Invalid',
    message: /silent for 6\d\d s: .*longhaul down forgets it/,
  })
  const { forgotten, stopped, changed } = await down({ home })
  assert.deepEqual([forgotten, stopped, changed], ['another-machine', [], true])
  await assert.rejects(access(recordFile), { code: 'ENOENT' })
})

test('a stack of this machine is its own after a reboot, under another name of the machine and from an earlier version', async (t) => {
  const earlier = { ...thisProcessSpace(), bootId: 'earlier', pidNamespace: 'pid:[1]' }
  const renamed = { ...thisProcessSpace(), host: 'the name in another network' }
  for (const changes of [
    { machine: earlier },
    { machine: renamed },
    { machine: undefined } as unknown as Partial<StackRecord>,
  ]) {
    const { home } = await shareWith(t, changes)
    assert.deepEqual(await stackStatus({ home }), { state: 'down', name: 'default' })
    assert.equal((await down({ home })).forgotten, null)
  }
})
