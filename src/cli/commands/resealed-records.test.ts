import assert from 'node:assert/strict'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { longhaul, useOwnStore } from '../../../test/support/command-line.ts'
import { rebench } from '../../../test/support/datasets/published-rows.ts'
import { makeEvaluatedRun } from '../../../test/support/evaluated-run.ts'
import { storeExportedRun } from '../../../test/support/exported-run.ts'
import { kindOf, openRecord, sealRecord } from '../../adapters/artifacts/store-rules.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import { createPages } from '../../viewer/pages.ts'

const POLICY: PolicyRef = {
  version: 'v000001-bbbbbbbb',
  uri: '',
  manifestSha256: '',
  globalStep: 1,
  checkpointUri: null,
  checkpointSha256: null,
}

/** What only a program error says. */
const PROGRAM_ERROR = /TypeError|RangeError|SyntaxError|Unexpected:|Cannot read|not iterable|is not a function/

describe('records that were changed and sealed again', () => {
  let own: Awaited<ReturnType<typeof useOwnStore>>
  before(async () => {
    own = await useOwnStore()
    await storeExportedRun(own.store, 'run')
    const rows = ['x-1', 'x-2'].map((id) => rebench.row(id))
    const attempts = [[1, 0] as const, ['infra', 1] as const].map((of) => [...of])
    await makeEvaluatedRun({
      store: own.store,
      root: own.root,
      run: 'night',
      rows,
      attempts,
      cutoff: null,
      policy: POLICY,
    })
  })
  after(() => own.close())

  /** Every reader of a run's records: what commands say, and the faults of the viewer's pages. */
  async function readAll(key: string): Promise<string[]> {
    const run = key.includes('night') ? 'night' : 'run'
    const out = (name: string): string => join(own.root, name)
    const said: string[] = []
    for (const command of [
      ['report', run],
      ['report', run, '--recompute'],
      ['ledger', 'verify', run],
      ['tasks', 'difficulty', run],
      ['compare', 'night', 'night'],
      ['export', run, '--format', 'csv', '--force', '--out', out('table.csv')],
      ['export', run, '--format', 'trajectories', '--force', '--out', out('trajectories')],
    ]) {
      const { exitCode, stdout, stderr } = await longhaul(...command)
      assert.doesNotMatch(stdout + stderr, PROGRAM_ERROR, `${command.join(' ')} after a change of ${key}`)
      assert.ok(
        exitCode === 0 || (stdout + stderr).trim() !== '',
        `${command.join(' ')} says why it ends with ${exitCode}`,
      )
      if (exitCode !== 0) said.push(stderr)
    }
    const pages = createPages(own.store)
    const episode = /^episodes\/((?:[^/]+\/){4}[^/]+)\//.exec(key)?.[1]
    const ofEpisode = ['episode', 'history', 'turns/0', 'turn/0', 'tokens'].map((page) => `${page}/${episode}`)
    const ofRun = ['run', 'report', 'episodes', 'blockers'].map((page) => `${page}/${run}`)
    for (const page of ['runs', 'nights', ...ofRun, ...(episode === undefined ? [] : ofEpisode)]) {
      await pages.read(page).catch((error: unknown) => {
        assert.ok(isLonghaulError(error), `page ${page} after a change of ${key}: ${String(error)}`)
        said.push(error.message)
      })
    }
    return said
  }

  async function withRecord(key: string, change: (record: Record<string, unknown>) => object): Promise<string[]> {
    const path = own.store.path(key)
    const bytes = await readFile(path)
    try {
      await rm(path)
      await writeFile(path, sealRecord(change(openRecord(key, bytes))))
      return await readAll(key)
    } finally {
      await rm(path)
      await writeFile(path, bytes)
    }
  }

  test('no reader ends in a program error, and each that fails names key, field and repair', async () => {
    const keys = (await own.store.list('')).filter((key) => kindOf(key) !== null)
    const ofEachKind = Map.groupBy(keys, (key) => `${kindOf(key)?.example} ${key.includes('night')}`)
    let failed = 0
    for (const [key = ''] of ofEachKind.values()) {
      const record = openRecord<Record<string, unknown>>(key, await readFile(own.store.path(key)))
      const fields = Object.keys(record).filter((field) => field !== 'schema')
      // The last field of a record is as good as any: the shapes' own test changes all of them.
      for (const field of fields.slice(-1)) {
        const said = await withRecord(key, (whole) => ({ ...whole, [field]: { text: 1 } }))
        for (const error of said.filter((one) => one.includes(`key=${key}`))) {
          failed += 1
          assert.match(error, /Artifact\.Corrupt|Expected stored bytes/)
          assert.ok(error.includes(`its field ${field}`), `${error} names ${field}`)
          assert.match(error, /[Rr]estore it from a backup/)
        }
      }
    }
    assert.ok(failed > 10, `${failed} answers name a record`)
  })

  test('a number that would make a list of as many entries is refused', async () => {
    const key = 'runs/night/eval-nightly/iterations/0000/plan.json'
    const said = await withRecord(key, (plan) => ({ ...plan, groupSize: 9e15 }))
    assert.ok(
      said.some((error) => error.includes('its field groupSize is 9000000000000000')),
      said.join('\n'),
    )
  })

  test('turns with numbers that no table can hold end no export', async () => {
    const key = 'episodes/run/dapo-1/0001/a/00/turns/0000.action.json'
    await withRecord(key, (action) => ({ ...action, promptDelta: [9e15] }))
    await withRecord(key.replace('action', 'observation'), (observation) => ({
      ...observation,
      execution: { ...(observation['execution'] as object), exitCode: 9e15 },
    }))
  })

  test('a record of another run or another evaluation is refused where it lies', async () => {
    const key = 'runs/night/evaluations/nightly.json'
    const other = await withRecord(key, (evaluation) => ({ ...evaluation, run: 'run' }))
    assert.ok(
      other.some((error) => error.includes('it is a record of run run')),
      other.join('\n'),
    )
    const renamed = await withRecord(key, (evaluation) => ({ ...evaluation, name: 'base' }))
    assert.ok(
      renamed.some((error) => error.includes('it is the evaluation base')),
      renamed.join('\n'),
    )
  })

  test('a damaged manifest of a batch is corrupt to the ledger and to the viewer', async () => {
    const directory = 'runs/run/dapo-1/iterations/0001/batch-00'
    for (const text of ['', 'null', '{}', '{"trajectories":[null],"policies":[]}']) {
      const path = own.store.path(`${directory}/batch.json`)
      const before = await readFile(path).catch(() => null)
      await rm(path, { force: true })
      await own.store.put(`${directory}/batch.json`, Buffer.from(text))
      const said = await readAll('episodes/run/dapo-1/0001/a/00/result.json')
      assert.ok(
        said.some((error) => error.includes(`key=${directory}/batch.json`)),
        said.join('\n'),
      )
      await rm(path)
      if (before !== null) await writeFile(path, before)
    }
  })
})
