/** `longhaul models import` as a user runs it: directories and models of a hub become policies that recipes can name. */
import assert from 'node:assert/strict'
import { cp, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { useEnvironment } from '../support/environment.ts'
import { importBasePolicy } from '../../src/adapters/trainer-job/job/policy-directory.ts'
import { readImportedChatFormat } from '../../src/adapters/trainer-job/job/policy-facts.ts'
import { createDirectoryStore } from '../../src/adapters/artifacts/directory-store.ts'
import { chatFormats } from '../../src/scaffold/render.ts'
import { longhaul } from '../support/command-line.ts'
import { startHubServer } from '../support/datasets/hub-server.ts'
import { runPython, withoutPython } from '../support/python.ts'

const REVISION = '1cfa9a7208912126459214e8b04321603b3df60c'

describe('longhaul models import', { skip: withoutPython }, () => {
  let root: string
  let model: string
  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'longhaul-models-'))
    model = join(root, 'model')
    await runPython(
      'import sys, pathlib; from import_sources import Made, make_directory;' +
        'make_directory(pathlib.Path(sys.argv[1]), Made(family="llama", chat="llama3", tied=True))',
      model,
    )
  })
  after(() => rm(root, { recursive: true }))

  test('a directory becomes a policy that the store takes as a base, with its chat format', async () => {
    const output = join(root, 'made')
    const { exitCode, stdout, stderr } = await longhaul('models', 'import', model, '--output', output)
    assert.equal(exitCode, 0, stderr)
    assert.match(stdout, /LlamaForCausalLM, .* tied embeddings/)
    assert.match(stdout, /logits at \d+ positions equal the source’s/)
    assert.match(stdout, /chatFormat: llama3/)
    const store = createDirectoryStore({ root: join(root, 'store') })
    const ref = await importBasePolicy({ store, directory: output })
    assert.equal(await readImportedChatFormat(ref), 'llama3')
    const again = await longhaul('models', 'import', model, '--output', output)
    assert.deepEqual([again.exitCode, /never overwrites/.test(again.stderr)], [1, true])
  })

  test('a hub model is pinned and recorded, and a failed import leaves nothing', async (t) => {
    const names = (await readdir(model)).filter((name) => name !== '.')
    const files = Object.fromEntries(
      await Promise.all(names.map(async (name) => [name, new Uint8Array(await readFile(join(model, name)))] as const)),
    )
    await using hub = await startHubServer({
      dataset: 'owner/thing',
      kind: 'model',
      revision: REVISION,
      files,
      token: 't',
    })
    const here = await mkdtemp(join(root, 'hub-'))
    const output = join(here, 'made')
    useEnvironment(t, { TEST_HUB_TOKEN: 't' })
    const of = (...more: string[]) =>
      longhaul(
        'models',
        'import',
        'owner/thing',
        '--hub-url',
        hub.url,
        '--token-variable',
        'TEST_HUB_TOKEN',
        '--output',
        output,
        ...more,
      )
    const unpinned = await of()
    assert.equal(unpinned.exitCode, 1)
    assert.match(unpinned.stderr, new RegExp(`--revision ${REVISION}`))
    assert.deepEqual(await readdir(here), [])
    const { exitCode, stdout, stderr } = await of('--revision', REVISION, '--json')
    assert.equal(exitCode, 0, stderr)
    const record = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as {
      source: { origin: string }
      directory: string
    }
    assert.equal(record.source.origin, `owner/thing@${REVISION}`)
    assert.deepEqual(await readdir(here), ['made'])
    assert.ok(
      !(await readFile(join(output, 'longhaul.json'), 'utf8')).includes(here),
      'the record contains no path of this machine',
    )
  })

  test('a model that the trainer refuses gives one message and exit code 1', async () => {
    const broken = join(root, 'broken')
    await cp(model, broken, { recursive: true })
    await rm(join(broken, 'tokenizer.json'))
    const { exitCode, stderr } = await longhaul('models', 'import', broken, '--output', join(root, 'never'))
    assert.equal(exitCode, 1)
    assert.match(stderr, /Expected tokenizer\.json in .*--tokenizer DIRECTORY/)
    assert.ok(!(await readdir(root)).some((name) => name.includes('never')))
  })

  test('the trainer knows exactly the formats that the scaffold plays', async () => {
    const theirs = JSON.parse(
      await runPython(
        'import json; from longhaul_trainer.importer.chat import FORMATS;' +
          'print(json.dumps({name: [f.start, f.message("user", "x"), f.header.format(role="assistant"), f.end_of_turn, f.after_turn] for name, f in FORMATS.items()}))',
      ),
    ) as unknown
    const ours = Object.fromEntries(
      Object.values(chatFormats).map((format) => [
        format.name,
        [format.start, format.message('user', 'x'), format.assistantHeader, format.endOfTurn, format.afterTurn],
      ]),
    )
    assert.deepEqual(theirs, ours)
  })

  test('--revision and --file are for models of the hub', async () => {
    const { exitCode, stderr } = await longhaul(
      'models',
      'import',
      model,
      '--output',
      join(root, 'x'),
      '--revision',
      REVISION,
    )
    assert.equal(exitCode, 1)
    assert.match(stderr, /only with a model of the hub/)
  })
})
