/** The guarantees of every artifact store. Each store's own test file runs these tests against the real store. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { ArtifactStore } from '../../../src/contracts/artifacts.types.ts'
import { isLonghaulError, LonghaulError } from '../../../src/contracts/errors.ts'
import { sealRecord } from '../../../src/adapters/artifacts/store-rules.ts'
import { sha256Hex } from '../../../src/platform/hash.ts'

export interface StoreUnderTest {
  /** Title of the suite. */
  name: string
  open: () => ArtifactStore
  /** Replaces stored bytes behind the store's back, as a disk or an operator would. */
  overwrite: (key: string, content: Uint8Array) => Promise<void>
  /** Why the store cannot run here. */
  skip?: string | undefined
}

const bytes = (text: string): Buffer => Buffer.from(text)
const textOf = (content: Uint8Array | null): string | null =>
  content === null ? null : Buffer.from(content).toString('utf8')

export const hasCode =
  (code: string) =>
  (error: unknown): boolean =>
    error instanceof LonghaulError && error.code === code

export function testStoreContract({ name, open, overwrite, skip }: StoreUnderTest): void {
  describe(name, { skip: skip ?? false }, () => {
    test('a key that is put twice is acknowledged for equal bytes and conflicts for other bytes', async () => {
      const store = open()
      const first = await store.put('runs/a/x.bin', bytes('one'))
      assert.deepEqual(first, { key: 'runs/a/x.bin', sha256: sha256Hex('one'), bytes: 3 })
      assert.deepEqual(await store.put('runs/a/x.bin', bytes('one')), first)
      await assert.rejects(store.put('runs/a/x.bin', bytes('two')), hasCode('Artifact.Conflict'))
      assert.equal(textOf(await store.get(first)), 'one')
      const empty = await store.put('runs/a/empty', new Uint8Array())
      assert.equal((await store.get(empty)).byteLength, 0)
    })

    test('one of fifty writers that claim a key with different records wins, and all see its record', async () => {
      const store = open()
      const claims = await everyOne(
        Array.from({ length: 50 }, (_, index) => store.claimRecord('race/claim.json', { owner: index })),
      )
      assert.equal(claims.filter((claim) => claim.won).length, 1)
      assert.equal(new Set(claims.map((claim) => claim.record.owner)).size, 1)
    })

    test('one of several writers of the same record wins, as with a lock', async () => {
      const store = open()
      const claims = await everyOne(Array.from({ length: 20 }, () => store.claimRecord('race/same.json', { owner: 1 })))
      assert.equal(claims.filter((claim) => claim.won).length, 1)
    })

    test('one of several writers with different bytes is acknowledged, the others get the conflict, and reads are whole', async () => {
      const store = open()
      const contents = Array.from({ length: 20 }, (_, index) => Buffer.alloc(50_000, String.fromCharCode(97 + index)))
      const ends = await Promise.allSettled(contents.map((content) => store.put('race/bytes.bin', content)))
      assert.equal(ends.filter((end) => end.status === 'fulfilled').length, 1)
      for (const end of ends) if (end.status === 'rejected') assert.ok(hasCode('Artifact.Conflict')(end.reason))
      const stored = Buffer.from((await store.read('race/bytes.bin')) ?? '')
      assert.ok(contents.some((content) => content.equals(stored)))
    })

    test('a record stores its own hash and is read back without it', async () => {
      const store = open()
      const record = { text: 'ü "quoted"', list: [1, 0.000001], none: null }
      await store.putRecord('runs/a/r.json', record)
      assert.equal(textOf(await store.read('runs/a/r.json')), textOf(sealRecord(record)))
      assert.deepEqual(await store.readRecord('runs/a/r.json'), record)
      await store.putRecord('runs/a/empty.json', {})
      assert.deepEqual(await store.readRecord('runs/a/empty.json'), {})
      assert.equal(await store.readRecord('runs/a/absent.json'), null)
    })

    test('refuses a record with any byte changed or cut off', async () => {
      const store = open()
      await store.putRecord('torn/r.json', { value: 41, name: 'x' })
      const good = Buffer.from((await store.read('torn/r.json')) ?? '')
      for (let at = 0; at < good.length; at++) {
        const bad = Buffer.from(good)
        bad[at] = (bad[at] ?? 0) ^ 1
        await overwrite('torn/r.json', bad)
        await assert.rejects(store.readRecord('torn/r.json'), hasCode('Artifact.Corrupt'), `byte ${at}`)
      }
      await overwrite('torn/r.json', good.subarray(0, good.length - 5))
      await assert.rejects(store.readRecord('torn/r.json'), hasCode('Artifact.Corrupt'))
    })

    test('refuses content that differs from its reference, and reports absent content as missing', async () => {
      const store = open()
      const ref = await store.put('c/x', bytes('abc'))
      await overwrite('c/x', bytes('abd'))
      await assert.rejects(store.get(ref), hasCode('Artifact.Corrupt'))
      await overwrite('c/x', bytes('ab'))
      await assert.rejects(store.get(ref), hasCode('Artifact.Corrupt'))
      await assert.rejects(store.get({ ...ref, key: 'c/y' }), hasCode('Artifact.Missing'))
      assert.equal(await store.read('c/y'), null)
    })

    test('refuses keys that would leave the store', async () => {
      const store = open()
      for (const key of [
        '',
        '/etc/passwd',
        '../x',
        'a/../../x',
        'a//b',
        'a/./b',
        'a\0b',
        'a\\b',
        '.tmp/x',
        'x'.repeat(256),
      ]) {
        const attempts = [
          async () => store.put(key, bytes('x')),
          async () => store.read(key),
          async () => store.removeFolder(`${key}/`),
          async () => store.folders(`${key}/`),
        ]
        for (const attempt of attempts) await assert.rejects(attempt, hasCode('Config.Invalid'), JSON.stringify(key))
      }
      await assert.rejects(async () => store.removeFolder('runs'), hasCode('Config.Invalid'))
      await assert.rejects(async () => store.removeFolder(''), hasCode('Config.Invalid'))
    })

    test('keys with every character of a task or run name stay distinct, are listed and found again', async () => {
      const store = open()
      const keys = [
        'a b',
        'a+b',
        'a%2Bb',
        'a&b',
        'a<b>',
        "it's",
        'q?x=1#y',
        'ünïcode',
        '日本',
        'a=b,c;d',
        '(1)*!~@$^',
      ].map((part) => `odd/${part}/x.json`)
      for (const key of keys) await store.putRecord(key, { key })
      for (const key of keys) assert.deepEqual(await store.readRecord(key), { key })
      assert.deepEqual(await store.list('odd/'), keys.toSorted())
      assert.deepEqual(await store.folders('odd/'), keys.map((key) => key.split('/')[1] ?? '').toSorted())
    })

    test('list returns the keys below a prefix in order', async () => {
      const store = open()
      const keys = ['l/b/2', 'l/a/1', 'l/b/10', 'lx/3', 'l/b.json', 'l/b-1/x']
      for (const key of keys) await store.put(key, bytes(key))
      assert.deepEqual(await store.list('l/'), ['l/a/1', 'l/b-1/x', 'l/b.json', 'l/b/10', 'l/b/2'])
      assert.deepEqual(await store.list('l/b/1'), ['l/b/10'])
      assert.deepEqual(await store.list('l/b'), ['l/b-1/x', 'l/b.json', 'l/b/10', 'l/b/2'])
      assert.deepEqual(await store.list('l'), ['l/a/1', 'l/b-1/x', 'l/b.json', 'l/b/10', 'l/b/2', 'lx/3'])
      assert.deepEqual(await store.list('nothing/here/'), [])
    })

    test('pages of any size return each key of a list once, from any start key', async () => {
      const store = open()
      const keys = Array.from({ length: 25 }, (_, index) => `pages/${index % 3}/${String(index).padStart(2, '0')}.json`)
      await Promise.all(keys.map((key) => store.put(key, bytes(key))))
      const all = keys.toSorted()
      for (const limit of [1, 4, 25, 1000]) {
        const seen: string[] = []
        for (let after: string | null = ''; after !== null; ) {
          const page = await store.listPage({ prefix: 'pages/', after, limit })
          assert.ok(page.keys.length <= limit)
          seen.push(...page.keys)
          after = page.next
        }
        assert.deepEqual(seen, all, `pages of ${limit}`)
      }
      for (const after of ['pages/1', 'pages/1/', 'pages/1/04.json', 'pages/1/04.jsoo', 'pages/9'])
        assert.deepEqual(
          (await store.listPage({ prefix: 'pages/', after })).keys,
          all.filter((key) => key > after),
        )
    })

    test('folders are the names directly below a prefix, without files', async () => {
      const store = open()
      for (const key of ['f/one/a/b', 'f/two/c', 'f/file.json', 'f2/x']) await store.put(key, bytes(key))
      assert.deepEqual(await store.folders('f/'), ['one', 'two'])
      assert.deepEqual(await store.folders('f/one/'), ['a'])
      assert.deepEqual(await store.folders('f/none/'), [])
    })

    test('removing a folder removes everything below it and nothing beside it, and can be repeated', async () => {
      const store = open()
      const keys = ['r/a/1', 'r/a/b/2', 'r/ab/3', 'r/a.json']
      for (const key of keys) await store.put(key, bytes(key))
      assert.equal(await store.removeFolder('r/a/'), 2)
      assert.deepEqual(await store.list('r/'), ['r/a.json', 'r/ab/3'])
      assert.equal(await store.removeFolder('r/a/'), 0)
      // The keys can be used again.
      await store.put('r/a/1', bytes('other'))
      assert.equal(textOf(await store.read('r/a/1')), 'other')
    })

    test('every refusal is a LonghaulError with the key in it', async () => {
      const store = open()
      await store.put('said/x', bytes('1'))
      await assert.rejects(store.put('said/x', bytes('2')), (error) => {
        assert.ok(isLonghaulError(error))
        assert.match(error.message, /said\/x/)
        return true
      })
    })
  })
}

/** Their results, once all have ended: a store is removed after its tests, and a writer that still runs would put files back. */
async function everyOne<T>(writers: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(writers)
  return Promise.all(writers)
}
