import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createDirectoryStore } from '../../artifacts/directory-store.ts'
import { policyKeys } from '../../../contracts/keys.ts'
import { importBasePolicy } from './policy-directory.ts'
import { readPositions } from './rope-statement.ts'
import { sha256Hex } from '../../../platform/hash.ts'

const root = await mkdtemp(join(tmpdir(), 'policy-'))
after(() => rm(root, { recursive: true, force: true }))
const store = createDirectoryStore({ root: join(root, 'store') })

async function makeModel(name: string, weights = 'weights'): Promise<string> {
  const directory = join(root, name)
  await mkdir(directory)
  await writeFile(join(directory, 'config.json'), '{"vocab_size": 7}')
  await writeFile(join(directory, 'tokenizer.json'), '{}')
  await writeFile(join(directory, 'model.safetensors'), weights)
  return directory
}

test('a model directory becomes an immutable policy named by its content, at any path', async () => {
  const [here, there] = [await makeModel('here'), await makeModel('there')]
  const ref = await importBasePolicy({ store, directory: here })
  assert.equal(ref.version, `v000000-${ref.manifestSha256.slice(0, 8)}`)
  assert.deepEqual(await importBasePolicy({ store, directory: there }), ref)
  assert.deepEqual(await store.readRecord(policyKeys.ref(ref.version)), ref)
  const directory = store.path(`policies/${ref.version}`)
  assert.equal((await readFile(join(directory, 'COMMITTED'), 'utf8')).trim(), ref.manifestSha256)
  const other = await importBasePolicy({ store, directory: await makeModel('other', 'other weights') })
  assert.notEqual(other.version, ref.version)
})

test('an import that was interrupted before its marker is finished later', async () => {
  const directory = await makeModel('cut', 'cut weights')
  const ref = await importBasePolicy({ store, directory })
  const marker = join(store.path(`policies/${ref.version}`), 'COMMITTED')
  await rm(marker)
  assert.deepEqual(await importBasePolicy({ store, directory }), ref)
  assert.equal((await readFile(marker, 'utf8')).trim(), ref.manifestSha256)
})

test('two concurrent importers get the same policy', async () => {
  const directory = await makeModel('twice', 'twice weights')
  const [a, b] = await Promise.all([importBasePolicy({ store, directory }), importBasePolicy({ store, directory })])
  assert.deepEqual(a, b)
})

test('follows links of a hub cache and leaves out hidden files, caches and old seals', async () => {
  const directory = await makeModel('linked')
  await writeFile(join(directory, '.gitattributes'), 'x')
  await writeFile(join(directory, 'COMMITTED'), 'stale')
  await symlink(join(root, 'here', 'config.json'), join(directory, 'extra.json'))
  const ref = await importBasePolicy({ store, directory })
  const manifest = JSON.parse(await readFile(join(store.path(`policies/${ref.version}`), 'MANIFEST.json'), 'utf8')) as {
    files: { path: string }[]
  }
  assert.deepEqual(
    manifest.files.map(({ path }) => path),
    ['config.json', 'extra.json', 'model.safetensors', 'tokenizer.json'],
  )
})

test('a missing directory and one without a model report what to change', async () => {
  await assert.rejects(importBasePolicy({ store, directory: join(root, 'absent') }), { code: 'Config.NotFound' })
  const empty = join(root, 'empty')
  await mkdir(empty)
  await assert.rejects(importBasePolicy({ store, directory: empty }), { code: 'Config.Invalid' })
})

test('a rope makes another policy: its config.json states it, and its version names it', async () => {
  const directory = await makeModel('stretched', 'weights to stretch')
  const plain = await importBasePolicy({ store, directory })
  const rope = { type: 'yarn', factor: 4, originalMax: 512 } as const
  const [ref, again] = [
    await importBasePolicy({ store, directory, rope }),
    await importBasePolicy({ store, directory, rope }),
  ]
  assert.deepEqual(again, ref)
  assert.notEqual(ref.version, plain.version)
  const policy = store.path(`policies/${ref.version}`)
  const config = await readFile(join(policy, 'config.json'))
  assert.deepEqual(readPositions(config.toString()), { rope, window: 2048 })
  const manifest = JSON.parse(await readFile(join(policy, 'MANIFEST.json'), 'utf8')) as {
    files: { path: string; bytes: number; sha256: string }[]
  }
  assert.deepEqual(manifest.files[0], { path: 'config.json', bytes: config.length, sha256: sha256Hex(config) })
  // The source and the policy without the rope stay what they are.
  assert.deepEqual(await importBasePolicy({ store, directory }), plain)
})

test('refuses a model that cannot have the rope, with its directory', async () => {
  const directory = await makeModel('scaled')
  await writeFile(join(directory, 'config.json'), '{"vocab_size": 7, "rope_scaling": {"type": "linear", "factor": 2}}')
  const rope = { type: 'yarn', factor: 4, originalMax: 512 } as const
  await assert.rejects(importBasePolicy({ store, directory, rope }), (error: unknown) => {
    const { code, details } = error as { code: string; details: Record<string, unknown> }
    return code === 'Config.Invalid' && details['directory'] === directory
  })
})

test('refuses a described base that was not created yet, with the command that creates it', async () => {
  await mkdir(join(root, 'described'))
  await writeFile(join(root, 'described', 'MAKE'), 'npm run policy:described\n')
  await assert.rejects(importBasePolicy({ store, directory: join(root, 'described', 'model') }), {
    code: 'Config.NotFound',
    message: /made first: npm run policy:described/,
  })
  await assert.rejects(importBasePolicy({ store, directory: join(root, 'nowhere', 'model') }), {
    code: 'Config.NotFound',
    message: /a directory with a Hugging Face model/,
  })
})
