/** Policies and checkpoints in a bucket, on a real S3 server: kept by one host, brought by another, whatever dies in between. */
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readFile, rm, stat, truncate, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import { blobKey, policyKeys } from '../../src/contracts/keys.ts'
import type { PolicyRef } from '../../src/contracts/policy.types.ts'
import { importBasePolicy } from '../../src/adapters/trainer-job/job/policy-directory.ts'
import { exists } from '../../src/platform/files.ts'
import { sha256Hex } from '../../src/platform/hash.ts'
import { type FaultyProxy, startFaultyProxy } from '../support/artifacts/faulty-proxy.ts'
import { findS3Server, openBucket, type S3Server, startS3Server } from '../support/artifacts/s3-server.ts'
import { hasCode } from '../support/artifacts/store-contract.ts'

const found = await findS3Server()
const skip = 'reason' in found ? found.reason : false
const PLENTY = 2 ** 40
const SOON = { giveUpAfterMs: 500 }

describe('weights in a bucket', { skip }, () => {
  let root: string
  let server: S3Server
  let proxy: FaultyProxy
  let hosts = 0

  before(async () => {
    if ('reason' in found) return
    root = await mkdtemp(join(tmpdir(), 'longhaul-weights-'))
    server = await startS3Server(found.program)
    proxy = await startFaultyProxy(server.url)
  })
  after(async () => {
    await proxy?.close()
    await server?.close()
    await rm(root, { recursive: true, force: true })
  })

  /** A host has a directory of its own; they share the bucket. */
  const host = (
    prefix: string,
    { limitBytes = PLENTY, leaseMs = 60_000, isShared = false, giveUpAfterMs = 60_000 } = {},
  ): ArtifactStore => {
    proxy.obey(() => null)
    const place = { directory: join(root, `host-${hosts++}`), limitBytes, leaseMs, isShared }
    return openBucket(server, { prefix, url: proxy.url, place, giveUpAfterMs }).store
  }

  test('another host uses the files that one host kept, also empty, nested and long ones', async () => {
    const [here, there] = [host('whole'), host('whole')]
    const long = Buffer.alloc(65 * 2 ** 20, 'longhaul')
    const made = await train(here, 'v000001-aaaaaaaa', {
      'tokenizer.json': '{}',
      'a/b/empty': '',
      'model.safetensors': long,
    })
    const kept = await here.weights.keep({ policy: made })
    assert.equal(kept.uri, 's3://records/whole/policies/v000001-aaaaaaaa')
    assert.equal(kept.checkpointUri, 's3://records/whole/checkpoints/v000001-aaaaaaaa')
    assert.deepEqual(await there.weights.kept(made.version), kept)
    for (const part of ['policy', 'checkpoint'] as const) {
      await there.weights.use({ policy: kept, part }, async () => {
        const local = there.weights.local(kept)
        const [from, to] = [made, local].map((ref) =>
          fileURLToPath((part === 'policy' ? ref.uri : ref.checkpointUri) ?? ''),
        )
        for (const name of ['tokenizer.json', 'a/b/empty', 'model.safetensors', 'MANIFEST.json', 'COMMITTED']) {
          const [mine, theirs] = await Promise.all([from, to].map((directory) => readFile(join(directory ?? '', name))))
          assert.ok(theirs !== undefined && mine?.equals(theirs), `${part} ${name}`)
        }
      })
    }
    const tokenizer = { policy: kept, part: 'policy', name: 'tokenizer.json' } as const
    assert.equal((await openBucket(server, { prefix: 'whole' }).store.weights.readFile(tokenizer))?.toString(), '{}')
    assert.equal(await there.weights.readFile({ ...tokenizer, name: 'longhaul.json' }), null)
    assert.equal(await there.weights.readFile({ ...tokenizer, policy: { ...kept, version: 'v000009-absent00' } }), null)
  })

  test('equal files of two policies are stored once', async () => {
    const store = host('once')
    for (const version of ['v000001-aaaaaaaa', 'v000002-bbbbbbbb']) {
      await store.weights.keep({
        policy: await train(store, version, { 'tokenizer.json': 'the same', 'w.safetensors': version }),
      })
    }
    const blobs = await store.list('blobs/')
    assert.ok(blobs.includes(blobKey(sha256Hex('the same'))))
    assert.equal(new Set(blobs).size, blobs.length)
    // Of each part: weights, manifest and marker are its own; all parts share the tokenizer.
    assert.equal(blobs.length, 1 + 2 * 2 * 3 - 2)
  })

  /**
   * Two hosts train the same job, because one of them was believed dead. Their bytes differ where kernels do. Each keeps a policy and a
   * checkpoint; taken one by one, the first could win one of them and the second the other.
   */
  test('when two hosts keep one version with different bytes, both use both parts of the winner', async () => {
    const stores = [host('race'), host('race')]
    const made = await Promise.all(
      stores.map((store, at) => train(store, 'v000001-aaaaaaaa', { 'w.safetensors': `host ${at}` })),
    )
    const kept = await Promise.all(stores.map((store, at) => store.weights.keep({ policy: made[at] as PolicyRef })))
    assert.deepEqual(kept[0], kept[1])
    const winner = made.findIndex(({ manifestSha256 }) => manifestSha256 === kept[0]?.manifestSha256)
    for (const store of stores) {
      for (const part of ['policy', 'checkpoint'] as const) {
        await store.weights.use({ policy: kept[0] as PolicyRef, part }, async () => {
          const path = store.path(
            part === 'policy' ? policyKeys.directory('v000001-aaaaaaaa') : policyKeys.checkpoint('v000001-aaaaaaaa'),
          )
          assert.equal(await readFile(join(path, 'w.safetensors'), 'utf8'), `host ${winner}`)
        })
      }
    }
  })

  test('a host that dies before the claim keeps nothing, and the next one uploads no blob twice', async () => {
    const [dying, next] = [host('half', SOON), host('half')]
    const files = { 'w.safetensors': 'weights' }
    const made = await train(dying, 'v000001-aaaaaaaa', files)
    proxy.obey(({ method, path }) => (method === 'PUT' && path.includes('/weights/') ? { kind: 'gone' } : null))
    await assert.rejects(dying.weights.keep({ policy: made }), hasCode('Artifact.Unavailable'))
    assert.equal(await next.weights.kept(made.version), null)
    await assert.rejects(
      next.weights.use({ policy: made, part: 'policy' }, async () => 1),
      hasCode('Artifact.Missing'),
    )
    proxy.obey(() => null)
    const again = await train(next, 'v000001-aaaaaaaa', files)
    proxy.seen.length = 0
    await next.weights.keep({ policy: again })
    const puts = proxy.seen.filter(({ method }) => method === 'PUT').map(({ path }) => path)
    assert.deepEqual(puts, ['/records/half/weights/v000001-aaaaaaaa.json'])
  })

  test('an interrupted download starts again and never shows a partial directory at the path', async () => {
    const [first, other] = [host('torn'), host('torn', SOON)]
    const made = await train(first, 'v000001-aaaaaaaa', { 'a.json': 'first', 'w.safetensors': 'weights' })
    const kept = await first.weights.keep({ policy: made })
    proxy.obey(({ method, path }) =>
      method === 'GET' && path.endsWith(sha256Hex('weights')) ? { kind: 'gone' } : null,
    )
    const use = () => other.weights.use({ policy: kept, part: 'policy' }, async () => 'used')
    await assert.rejects(use(), hasCode('Artifact.Unavailable'))
    assert.equal(await exists(other.path(policyKeys.directory(made.version))), false)
    proxy.obey(() => null)
    assert.equal(await use(), 'used')
  })

  test('detects damage in a blob of the bucket, a file of the trainer and a cached file', async () => {
    const [first, other] = [host('damage'), host('damage')]
    const made = await train(first, 'v000001-aaaaaaaa', { 'w.safetensors': 'weights' })
    const file = join(fileURLToPath(made.uri), 'w.safetensors')
    await writeFile(file, 'wEights')
    await assert.rejects(first.weights.keep({ policy: made }), hasCode('Artifact.Corrupt'))
    assert.equal(await first.weights.kept(made.version), null)
    await writeFile(file, 'weights')
    const kept = await first.weights.keep({ policy: made })
    const blob = server.fileOf(`damage/${blobKey(sha256Hex('weights'))}`)
    await writeFile(blob, 'wEights')
    const use = () => other.weights.use({ policy: kept, part: 'policy' }, async () => 'used')
    await assert.rejects(use(), hasCode('Artifact.Corrupt'))
    assert.equal(await exists(other.path(policyKeys.directory(made.version))), false)
    await writeFile(blob, 'weights')
    await use()
    const brought = join(other.path(policyKeys.directory(made.version)), 'w.safetensors')
    await truncate(brought, 3)
    await use()
    assert.equal(await readFile(brought, 'utf8'), 'weights')
  })

  test('a host above its limit removes the least recently used weights, but none in use', async () => {
    const source = host('limit')
    const versions = ['v000001-aaaaaaaa', 'v000002-bbbbbbbb', 'v000003-cccccccc', 'v000004-dddddddd']
    const kept: PolicyRef[] = []
    for (const version of versions) {
      const content = Buffer.alloc(1_000_000, version)
      kept.push(await source.weights.keep({ policy: await train(source, version, { 'w.safetensors': content }) }))
    }
    const store = host('limit', { limitBytes: 2_500_000 })
    const here = async () => Promise.all(versions.map((version) => exists(store.path(policyKeys.directory(version)))))
    const [one, two, three, four] = kept as [PolicyRef, PolicyRef, PolicyRef, PolicyRef]
    const use = (policy: PolicyRef, work = async () => {}) => store.weights.use({ policy, part: 'policy' }, work)
    const unused = async (policy: PolicyRef, sinceS: number) => {
      const lease = store.path(`.leases/${encodeURIComponent(policyKeys.directory(policy.version))}`)
      await utimes(lease, Date.now() / 1000 - sinceS, Date.now() / 1000 - sinceS)
    }
    await use(one)
    await use(two)
    await unused(one, 100)
    await unused(two, 200)
    await use(three)
    assert.deepEqual(await here(), [true, false, true, false])
    await unused(three, 50)
    await use(one, async () => {
      await unused(three, 50)
      await use(four)
      // Over the limit by what is in use: it stays.
      await use(two, async () => assert.equal((await here())[0], true))
    })
    assert.equal((await here())[2], false)
    assert.equal((await stat(join(store.path(policyKeys.directory(one.version)), 'w.safetensors'))).size, 1_000_000)
  })

  test('a served policy stays while its server may read it', async () => {
    const source = host('served')
    const kept: PolicyRef[] = []
    for (const version of ['v000001-aaaaaaaa', 'v000002-bbbbbbbb'])
      kept.push(await source.weights.keep({ policy: await train(source, version, { 'w.safetensors': version }) }))
    const store = host('served', { limitBytes: 0, leaseMs: 1 })
    const [one, two] = kept as [PolicyRef, PolicyRef]
    await store.weights.use({ policy: one, part: 'policy', afterMs: 3_600_000 }, async () => {})
    await store.weights.use({ policy: two, part: 'policy' }, async () => {})
    assert.equal(await exists(store.path(policyKeys.directory(one.version))), true)
  })

  test('a base policy is imported once for all hosts', async () => {
    const directory = join(root, 'model')
    await mkdir(directory, { recursive: true })
    for (const name of ['config.json', 'tokenizer.json', 'model.safetensors'])
      await writeFile(join(directory, name), `{"vocab_size":1}`)
    const first = await importBasePolicy({ store: host('base'), directory })
    proxy.seen.length = 0
    const next = host('base')
    assert.deepEqual(await importBasePolicy({ store: next, directory }), first)
    assert.equal(await exists(next.path(policyKeys.directory(first.version))), false)
    assert.deepEqual(
      proxy.seen.filter(({ path }) => path.includes('/blobs/')),
      [],
    )
  })

  test('a batch and a file of the store arrive at their paths', async () => {
    const [first, other] = [host('batch'), host('batch')]
    const folder = 'runs/a/dapo-1/iterations/0001/batch-00'
    await first.put(`${folder}/batch.json`, Buffer.from('{}'))
    await first.put(`${folder}/batch.safetensors`, Buffer.from('rows'))
    const config = await first.put('runs/a/dapo-1/iterations/0001/job-00/config.json', Buffer.from('{"lr":1}'))
    const policy = await first.weights.keep({
      policy: await train(first, 'v000001-aaaaaaaa', { 'w.safetensors': 'w' }),
    })
    await other.weights.bringFile(config)
    // A listing that is older than the batch.
    proxy.obey(({ method, query }) =>
      method === 'GET' && query.get('prefix')?.includes(folder) === true
        ? { kind: 'answer', status: 200, code: '', text: '<ListBucketResult></ListBucketResult>' }
        : null,
    )
    const folders = [{ key: folder, files: ['batch.safetensors', 'batch.json'] }]
    await other.weights.use({ policy, part: 'checkpoint', folders }, async () => {
      assert.equal(await readFile(other.path(`${folder}/batch.safetensors`), 'utf8'), 'rows')
      assert.equal(await readFile(other.path(config.key), 'utf8'), '{"lr":1}')
    })
  })

  test('refuses a program of another machine unless the operator named a shared directory', () => {
    assert.throws(
      () => host('seen').weights.requireSeenBy('the policy server http://gpu-1:8000'),
      (error) => {
        assert.ok(hasCode('Config.Invalid')(error))
        return /LONGHAUL_WEIGHTS to name a directory that the policy server http:\/\/gpu-1:8000 sees/.test(
          String(error),
        )
      },
    )
    host('seen', { isShared: true }).weights.requireSeenBy('the policy server http://gpu-1:8000')
    assert.throws(() => openBucket(server).store.path('policies/v1'), hasCode('Config.Invalid'))
  })

  /** Both directories of a training job, as the trainer leaves them at their paths. */
  async function train(
    store: ArtifactStore,
    version: string,
    files: Record<string, string | Buffer>,
  ): Promise<PolicyRef> {
    const parts = { policy: policyKeys.directory(version), checkpoint: policyKeys.checkpoint(version) }
    const hashes: Record<string, string> = {}
    for (const [kind, key] of Object.entries(parts)) {
      const listed = Object.entries(files).map(([path, content]) => ({ path, sha256: sha256Hex(content) }))
      const manifest = JSON.stringify({ schema: 'longhaul.manifest/1', kind, version, files: listed })
      const all = { ...files, 'MANIFEST.json': manifest, COMMITTED: `${sha256Hex(manifest)}\n` }
      for (const [path, content] of Object.entries(all)) {
        const target = join(store.path(key), path)
        await mkdir(dirname(target), { recursive: true })
        await writeFile(target, content)
      }
      hashes[kind] = sha256Hex(manifest)
    }
    return store.weights.local({
      version,
      uri: '',
      manifestSha256: hashes['policy'] ?? '',
      globalStep: 1,
      checkpointUri: '',
      checkpointSha256: hashes['checkpoint'] ?? '',
    })
  }
})
