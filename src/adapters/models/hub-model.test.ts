import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { type HubContent, startHubServer } from '../../../test/support/datasets/hub-server.ts'
import { downloadModel, type HubModel } from './hub-model.ts'

const REVISION = '1cfa9a7208912126459214e8b04321603b3df60c'
const NAME = 'owner/thing'
const root = await mkdtemp(join(tmpdir(), 'longhaul-hub-model-'))
after(() => rm(root, { recursive: true }))

const text = (content: string) => new TextEncoder().encode(content)
const FILES = {
  'config.json': text('{}'),
  'tokenizer.json': text('{"a": 1}'),
  'model-00001-of-00002.safetensors': new Uint8Array(5000).fill(7),
  'model-00002-of-00002.safetensors': new Uint8Array(3000).fill(9),
  'model.safetensors.index.json': text('{}'),
  'pytorch_model.bin': new Uint8Array(2000),
  'README.md': text('A model.'),
}

async function fetchFrom(
  content: Partial<HubContent>,
  model: Partial<HubModel> & { url?: string } = {},
): Promise<{ directory: string; hub: Awaited<ReturnType<typeof startHubServer>>; said: string[] }> {
  const said: string[] = []
  const directory = await mkdtemp(join(root, 'download-'))
  const hub = await startHubServer({ dataset: NAME, kind: 'model', revision: REVISION, files: FILES, ...content })
  try {
    await downloadModel({
      model: {
        name: NAME,
        revision: REVISION,
        file: null,
        hubUrl: hub.url,
        token: { variable: 'MY_TOKEN', value: null },
        ...model,
      },
      directory,
      log: () => undefined,
      onProgress: (text) => said.push(text),
      signal: new AbortController().signal,
    })
    return { directory, hub, said }
  } finally {
    await hub[Symbol.asyncDispose]()
  }
}

test('weights and texts of the pinned revision are fetched, with the token; pickles and the rest are not', async () => {
  const token = { variable: 'MY_TOKEN', value: 'of-any-form' }
  const { directory, hub, said } = await fetchFrom({ token: token.value, failures: 2, breaks: 1 }, { token })
  const { 'pytorch_model.bin': _, 'README.md': __, ...wanted } = FILES
  assert.deepEqual((await readdir(directory)).toSorted(), Object.keys(wanted).toSorted())
  for (const [name, bytes] of Object.entries(wanted)) {
    assert.deepEqual(new Uint8Array(await readFile(join(directory, name))), bytes)
  }
  assert.match(said.at(-1) ?? '', /^downloading file 5 of 5, 0\.0 of 0\.0 MB$/)
  assert.ok(hub.requests.length > 5 && hub.requests.every((request) => request.token === 'Bearer of-any-form'))
})

test('the token stays with the hub: the storage that a file is redirected to does not get it', async () => {
  const storage = await startHubServer({ dataset: 'x/y', revision: REVISION, files: FILES })
  await using _ = storage
  const token = { variable: 'MY_TOKEN', value: 'secret' }
  const { directory } = await fetchFrom(
    { token: token.value, storage: `${storage.url}/datasets/x/y/resolve/${REVISION}` },
    { token },
  )
  assert.deepEqual(
    new Uint8Array(await readFile(join(directory, 'model-00001-of-00002.safetensors'))),
    FILES['model-00001-of-00002.safetensors'],
  )
  assert.ok(storage.requests.length > 0 && storage.requests.every((request) => request.token === null))
})

test('a GGUF file of a repository is fetched alone', async () => {
  const file = 'thing-F16.gguf'
  const { directory } = await fetchFrom({ files: { ...FILES, [file]: text('GGUF') } }, { file })
  assert.deepEqual(await readdir(directory), [file])
})

const REFUSED: [
  what: string,
  content: Partial<HubContent>,
  model: Partial<HubModel>,
  expected: { code: string; message: RegExp },
][] = [
  [
    'no revision: the message has the commit to pin',
    {},
    { revision: '' },
    { code: 'Config.Invalid', message: new RegExp(`branches and tags move; main is now --revision ${REVISION}`) },
  ],
  [
    'a branch',
    {},
    { revision: 'main' },
    { code: 'Config.Invalid', message: new RegExp(`main is now --revision ${REVISION}`) },
  ],
  [
    'a revision that the repository has not',
    {},
    { revision: '0'.repeat(40) },
    {
      code: 'Config.NotFound',
      message: new RegExp(`revision 0{40}, but the hub knows no such revision; main is --revision ${REVISION}`),
    },
  ],
  [
    'a branch that the repository has not',
    {},
    { revision: 'next' },
    { code: 'Config.NotFound', message: /revision next, but the hub knows no such revision/ },
  ],
  [
    'another name',
    {},
    { name: 'owner/other' },
    { code: 'Config.NotFound', message: /Expected a model named owner\/other on the hub/ },
  ],
  [
    'a private model without a token',
    { token: 'good' },
    {},
    { code: 'Config.NotFound', message: /private or gated.* Set MY_TOKEN to a token .*--token-variable/ },
  ],
  [
    'a wrong token',
    { token: 'good' },
    { token: { variable: 'MY_TOKEN', value: 'bad' } },
    { code: 'Config.NotFound', message: /refuses the token in MY_TOKEN/ },
  ],
  [
    'a token of two lines',
    { token: 'good' },
    { token: { variable: 'MY_TOKEN', value: 'good\nbad' } },
    { code: 'Config.Invalid', message: /Expected MY_TOKEN to be printable characters of ASCII/ },
  ],
  [
    'a gated model',
    { token: 'good', refusal: 403 },
    { token: { variable: 'MY_TOKEN', value: 'other' } },
    { code: 'Config.NotFound', message: /accept the model’s terms/ },
  ],
  ['half a file, whenever it is asked for', { breaks: 100 }, {}, { code: 'Artifact.Unavailable', message: /Expected/ }],
  [
    'a file of the right size that is another',
    { tampered: { 'tokenizer.json': text('{"a": 2}') } },
    {},
    { code: 'Artifact.Corrupt', message: /tokenizer\.json to have a hash of [0-9a-f]{40,64}, .*import again/ },
  ],
  [
    'a file that is shorter than listed',
    { tampered: { 'tokenizer.json': text('{}') } },
    {},
    { code: 'Artifact.Corrupt', message: /tokenizer\.json to have 8 bytes.* got 2 bytes/ },
  ],
  [
    'only pickles',
    { files: { 'config.json': text('{}'), 'pytorch_model.bin': text('x') } },
    {},
    { code: 'Config.Invalid', message: /pytorch_model\.bin, and a pickle runs code/ },
  ],
  [
    'only GGUF',
    { files: { 'thing-Q8_0.gguf': text('GGUF') } },
    {},
    { code: 'Config.Invalid', message: /name one with --file thing-Q8_0\.gguf/ },
  ],
  ['no weights', { files: { 'README.md': text('x') } }, {}, { code: 'Config.Invalid', message: /holds no weights/ }],
  [
    'a GGUF file that the repository has not',
    { files: { 'thing-Q8_0.gguf': text('GGUF') } },
    { file: 'thing-F16.gguf' },
    { code: 'Config.NotFound', message: /it has thing-Q8_0\.gguf/ },
  ],
  [
    'a hub that does not answer',
    {},
    { hubUrl: 'http://127.0.0.1:1' },
    { code: 'Artifact.Unavailable', message: /no client of HTTP asks: import again later, or name another hub/ },
  ],
]

for (const [what, content, model, expected] of REFUSED) {
  test(`${what}: refused with what to do, and no token in the message`, async () => {
    await assert.rejects(fetchFrom(content, model), (error: unknown) => {
      const { code, message, details } = error as { code: string; message: string; details: unknown }
      assert.equal(code, expected.code)
      assert.match(message, expected.message)
      assert.ok(!/good|bad/.test(`${message}${JSON.stringify(details)}`))
      return true
    })
  })
}
