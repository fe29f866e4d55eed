/**
 * The artifact store on a real S3 server: what every store promises, and what becomes of it when the server answers 503, half a
 * body, late, never, or is gone. The proxy spoils what passes; the server behind it is always right.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, beforeEach, describe, test } from 'node:test'
import { createServer as createSecureServer, type ServerOptions } from 'node:https'
import { promisify } from 'node:util'
import { changeEnvironment, useEnvironment } from '../support/environment.ts'
import { checkBucket, createS3Store } from '../../src/adapters/artifacts/s3/s3-store.ts'
import { createObjects, PART_BYTES } from '../../src/adapters/artifacts/s3/s3-objects.ts'
import { createS3Requests } from '../../src/adapters/artifacts/s3/s3-requests.ts'
import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import { isLonghaulError } from '../../src/contracts/errors.ts'
import { WORK_CHECKS } from '../../src/stack/doctor/work-checks.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import {
  type FaultyProxy,
  type Fault,
  type SeenS3Request,
  startFaultyProxy,
} from '../support/artifacts/faulty-proxy.ts'
import {
  findS3Server,
  openBucket,
  type OpenBucketOptions,
  S3_KEY,
  S3_SECRET,
  type S3Server,
  startS3Server,
} from '../support/artifacts/s3-server.ts'
import { longhaul } from '../support/command-line.ts'
import { eventually, HANG_MS } from '../support/hang.ts'
import { freePort, listenOnLoopback } from '../support/loopback.ts'
import { createAuthority } from '../support/temporal-gate.ts'
import { hasCode, testStoreContract } from '../support/artifacts/store-contract.ts'

const run = promisify(execFile)
const found = await findS3Server()
const skip = 'reason' in found ? found.reason : undefined

let server: S3Server
let proxy: FaultyProxy

before(async () => {
  if ('reason' in found) return
  server = await startS3Server(found.program)
  proxy = await startFaultyProxy(server.url)
})

after(async () => {
  await proxy?.close()
  await server?.close()
})

const open = (options: OpenBucketOptions = {}) => openBucket(server, options)

testStoreContract({
  name: 'artifact store: s3',
  skip,
  open: () => open({ prefix: 'contract' }).store,
  // As another program would, which knows nothing of our metadata.
  overwrite: async (key, content) => {
    const { send } = open({ prefix: 'contract' })
    await send({ method: 'PUT', key: `contract/${key}`, body: content })
  },
})

describe('an S3 store whose server misbehaves', { skip: skip ?? false }, () => {
  let store: ArtifactStore
  const troubles: string[] = []
  let spoiled = 0
  const SHORT_MS = 200

  /** The first `times` requests that match are spoiled. */
  const spoil = (fault: Fault, times: number, matches: (request: SeenS3Request) => boolean = () => true): void => {
    let left = times
    proxy.obey((request) => {
      if (left === 0 || !matches(request)) return null
      left -= 1
      spoiled += 1
      return fault
    })
  }
  /** The store behind the proxy. Only silence needs a short answer time; a busy machine answers late. */
  const openFaulty = (options: OpenBucketOptions = {}): ArtifactStore =>
    open({
      prefix: 'faulty',
      url: proxy.url,
      giveUpAfterMs: 60_000,
      onTransientError: (error) => troubles.push(error.message),
      ...options,
    }).store
  const isPut = ({ method }: SeenS3Request): boolean => method === 'PUT'
  const isGet = ({ method }: SeenS3Request): boolean => method === 'GET'

  beforeEach(() => {
    proxy.obey(() => null)
    proxy.seen.length = 0
    troubles.length = 0
    spoiled = 0
    store = openFaulty()
  })

  for (const [name, fault] of Object.entries<Fault>({
    'SlowDown of 503': { kind: 'answer', status: 503, code: 'SlowDown', headers: { 'retry-after': '1' } },
    'an internal error': { kind: 'answer', status: 500, code: 'InternalError' },
    'a conflict of two writers at once': { kind: 'answer', status: 409, code: 'ConditionalRequestConflict' },
    silence: { kind: 'silence' },
    'a connection that ends': { kind: 'gone' },
    'a connection that ends after the server has acted': { kind: 'lost-answer' },
  })) {
    test(`${name}: writes, claims, reads and listings are retried, and the claim is won once`, async () => {
      if (fault.kind === 'silence') store = openFaulty({ answerMs: SHORT_MS })
      const at = `again/${name.replaceAll(' ', '-')}`
      spoil(fault, 2, isPut)
      await store.put(`${at}/bytes`, Buffer.from('x'))
      spoil(fault, 2, isPut)
      assert.deepEqual(await store.claimRecord(`${at}/claim.json`, { who: 'me' }), { record: { who: 'me' }, won: true })
      assert.deepEqual(await store.claimRecord(`${at}/claim.json`, { who: 'me' }), {
        record: { who: 'me' },
        won: false,
      })
      spoil(fault, 2, isGet)
      assert.deepEqual(await store.readRecord(`${at}/claim.json`), { who: 'me' })
      spoil(fault, 2, isGet)
      assert.deepEqual(await store.list(`${at}/`), [`${at}/bytes`, `${at}/claim.json`])
      assert.equal(spoiled, 8)
      // With a short answer time a busy server may be late once more.
      if (fault.kind === 'silence') assert.ok(troubles.length >= 8, `${troubles.length} reports of 8 faults`)
      else assert.equal(troubles.length, 8)
      assert.match(troubles[0] ?? '', /store=s3:\/\/records\/faulty/)
    })
  }

  // The story: our claim is written, its answer is lost, and we ask again. The server refuses the second put, as it should. Only
  // what was stored tells whether the first one was ours.
  test('a claim with a lost answer is not won when another writer has the key', async () => {
    await open({ prefix: 'faulty' }).store.claimRecord('lost/other.json', { who: 'same' })
    spoil({ kind: 'lost-answer' }, 1, isPut)
    assert.equal((await store.claimRecord('lost/other.json', { who: 'same' })).won, false)
  })

  for (const kind of ['half-body', 'short-body', 'flipped-body'] as const) {
    test(`${kind}: a read never returns it and retries`, async () => {
      const key = `body/${kind}`
      const content = Buffer.from('all of these bytes')
      const ref = await store.put(key, content)
      spoil({ kind }, 2, isGet)
      assert.deepEqual(await store.get(ref), content)
      // By key alone, so without a hash of the caller's.
      spoil({ kind }, 2, isGet)
      assert.deepEqual(await store.read(key), content)
    })
  }

  test('a damaged object is reported as corrupt, by key and by reference', async () => {
    const ref = await store.put('damaged/x', Buffer.from('good'))
    await writeFile(server.fileOf('faulty/damaged/x'), 'evil')
    await assert.rejects(store.read('damaged/x'), hasCode('Artifact.Corrupt'))
    await assert.rejects(store.get(ref), hasCode('Artifact.Corrupt'))
  })

  test('a truncated page of a listing is requested again', async () => {
    for (const name of ['a', 'b', 'c', 'd']) await store.put(`listed/${name}`, Buffer.from(name))
    for (const kind of ['short-body', 'half-body'] as const) {
      spoil({ kind }, 2)
      assert.equal((await store.list('listed/')).length, 4)
      spoil({ kind }, 2)
      assert.deepEqual(await store.folders('listed/'), [])
    }
  })

  test('a page without keys is not the end of a listing that goes on', async () => {
    for (const name of ['a', 'b', 'c/d']) await store.put(`sparse/${name}`, Buffer.from(name))
    const empty = (token: string): Fault => ({
      kind: 'answer',
      status: 200,
      code: '',
      text: `<ListBucketResult><IsTruncated>true</IsTruncated>${token}</ListBucketResult>`,
    })
    const following = '<NextContinuationToken>faulty/sparse/a</NextContinuationToken>'
    spoil(empty(following), 1)
    assert.deepEqual(await store.list('sparse/'), ['sparse/b', 'sparse/c/d'])
    spoil(empty(following), 1)
    assert.deepEqual(await store.folders('sparse/'), ['c'])
    for (const list of [() => store.list('sparse/'), () => store.folders('sparse/')]) {
      spoil(empty(''), 1)
      await assert.rejects(list, hasCode('Artifact.Unavailable'))
    }
  })

  test('a store that stays away is unavailable by name, and later requests find its objects', async () => {
    const brief = openFaulty({ giveUpAfterMs: 600, answerMs: SHORT_MS })
    await store.put('away/x', Buffer.from('kept'))
    for (const fault of [
      { kind: 'gone' },
      { kind: 'silence' },
      { kind: 'answer', status: 503, code: 'SlowDown' },
    ] as Fault[]) {
      proxy.obey(() => fault)
      for (const ask of [
        () => brief.read('away/x'),
        () => brief.put('away/y', Buffer.from('y')),
        () => brief.list('away/'),
      ])
        await assert.rejects(ask, (error) => {
          assert.ok(isLonghaulError(error))
          assert.deepEqual([error.code, error.retryable], ['Artifact.Unavailable', true])
          assert.match(error.message, /store=s3:\/\/records\/faulty/)
          return true
        })
    }
    proxy.obey(() => null)
    assert.equal(Buffer.from((await eventually(() => brief.read('away/x'))) ?? '').toString(), 'kept')
    await eventually(() => brief.put('away/y', Buffer.from('y')))
  })

  test('a store that always refuses a put as existing becomes unavailable instead of an endless retry', async () => {
    const { store } = open({ prefix: 'faulty', url: proxy.url })
    proxy.obey(({ method }) => (method === 'PUT' ? { kind: 'answer', status: 412, code: 'PreconditionFailed' } : null))
    await assert.rejects(store.put('never/x', Buffer.from('x')), hasCode('Artifact.Unavailable'))
    proxy.obey(() => null)
    assert.equal(await store.read('never/x'), null)
  })

  test('credentials that expire during a run are requested again once', async () => {
    let renewals = 0
    const { location } = open({ prefix: 'faulty', url: proxy.url })
    const send = createS3Requests({
      location,
      store: 'x',
      credentials: async ({ renew }) => {
        if (renew) renewals += 1
        return { accessKeyId: S3_KEY, secretAccessKey: S3_SECRET }
      },
    })
    const renewed = createS3Store({ location, send })
    spoil({ kind: 'answer', status: 400, code: 'ExpiredToken' }, 1)
    await renewed.put('expired/x', Buffer.from('x'))
    assert.equal(renewals, 1)
    proxy.obey(() => ({ kind: 'answer', status: 400, code: 'ExpiredToken' }))
    await assert.rejects(renewed.read('expired/x'), hasCode('Artifact.Unavailable'))
    assert.equal(renewals, 2)
  })
})

describe('objects of several parts', { skip: skip ?? false }, () => {
  const content = Buffer.alloc(2 * PART_BYTES + 12_345, 'weights of a policy, in 16 MiB parts;')

  const uploadsLeft = async (): Promise<number> => {
    const { send } = open()
    const answer = await send({ method: 'GET', query: { uploads: '' } })
    return answer.body.toString().split('<UploadId>').length - 1
  }

  test('objects are uploaded and downloaded in parts, stored once, and conflict like others', async () => {
    const { store } = open({ prefix: 'parts' })
    const ref = await store.put('big', content)
    assert.ok(content.equals(Buffer.from(await store.get(ref))))
    assert.deepEqual(await store.put('big', content), ref)
    const other = Buffer.from(content)
    other[other.length - 1] = 0
    await assert.rejects(store.put('big', other), hasCode('Artifact.Conflict'))
    assert.equal(await uploadsLeft(), 0)
  })

  test('one of four concurrent writers is acknowledged, and no upload is left', async () => {
    const { store } = open({ prefix: 'parts' })
    const contents = [1, 2, 3, 4].map((value) => Buffer.alloc(PART_BYTES + 1, value))
    const ends = await Promise.allSettled(contents.map((one) => store.put('raced', one)))
    assert.equal(ends.filter(({ status }) => status === 'fulfilled').length, 1)
    const stored = Buffer.from((await store.read('raced')) ?? '')
    assert.ok(contents.some((one) => one.equals(stored)))
    assert.equal(await uploadsLeft(), 0)
  })

  test('a server that fails in the middle stores nothing and keeps no part', async () => {
    const { store } = open({ prefix: 'parts', url: proxy.url, giveUpAfterMs: 3_000 })
    proxy.obey(({ query }) =>
      query.get('partNumber') === '2' ? { kind: 'answer', status: 503, code: 'SlowDown' } : null,
    )
    await assert.rejects(store.put('broken', content), hasCode('Artifact.Unavailable'))
    proxy.obey(() => null)
    assert.equal(await store.read('broken'), null)
    assert.equal(await uploadsLeft(), 0)
  })

  test('an object counts as ours when only the last answer was lost', async () => {
    const { store } = open({ prefix: 'parts', url: proxy.url, answerMs: 5_000 })
    let isLost = false
    proxy.obey(({ method, query }) => {
      if (isLost || method !== 'POST' || !query.has('uploadId')) return null
      isLost = true
      return { kind: 'lost-answer' }
    })
    await store.put('answered', content)
    proxy.obey(() => null)
    assert.ok(isLost)
    assert.equal(await uploadsLeft(), 0)
  })

  test('uploads of dead writers are aborted by their age', async () => {
    const { send } = open({ prefix: 'parts' })
    await send({ method: 'POST', key: 'parts/dead', query: { uploads: '' } })
    await send({ method: 'POST', key: 'other/alive', query: { uploads: '' } })
    const objects = createObjects(send)
    const inAnHour = new Date(Date.now() + 3_600_000)
    assert.equal(await objects.endUnfinished({ prefix: 'parts/', before: new Date(0) }), 0)
    assert.equal(await objects.endUnfinished({ prefix: 'parts/', before: inAnHour }), 1)
    assert.equal(await uploadsLeft(), 1)
    assert.equal(await objects.endUnfinished({ prefix: 'other/', before: inAnHour }), 1)
  })
})

/** What the trial of a bucket puts at last. */
const SECOND = Buffer.from('second')

describe('a check of the bucket before a worker uses it', { skip: skip ?? false }, () => {
  const closers: (() => Promise<unknown>)[] = []
  const refused = async (opened: OpenBucketOptions, expected: RegExp): Promise<void> => {
    const before = await open({ prefix: 'untouched' }).store.list('')
    await assert.rejects(checkBucket(open(opened)), (error) => {
      assert.ok(isLonghaulError(error))
      assert.equal(error.code, 'Config.Invalid')
      assert.match(error.message, expected)
      assert.ok(!JSON.stringify([error.message, error.details, String(error.cause)]).includes('secret'))
      return true
    })
    assert.deepEqual(await open({ prefix: 'untouched' }).store.list(''), before)
  }

  beforeEach(() => proxy.obey(() => null))

  test('a good bucket passes and keeps no object of the check', async () => {
    const opened = open({ prefix: 'tried' })
    await checkBucket(opened)
    await checkBucket(opened)
    const answer = await opened.send({ method: 'GET', query: { 'list-type': '2', prefix: 'tried/' } })
    assert.doesNotMatch(answer.body.toString(), /<Key>/)
  })

  test('wrong credentials', () =>
    refused({ secret: 'another secret' }, /accept the credentials of this machine \(SignatureDoesNotMatch/))
  test('no such bucket', () => refused({ bucket: 'not-there' }, /bucket of the artifact store to exist/))

  describe('one refused operation is named by the right that it needs, also where all others work', () => {
    const CASES: [right: string, matches: (request: SeenS3Request) => boolean][] = [
      ['s3:ListBucket', ({ method, query }) => method === 'GET' && query.has('list-type')],
      ['s3:PutObject', ({ method, query }) => method === 'PUT' && !query.has('uploadId')],
      ['s3:PutObject', ({ method, query }) => method === 'POST' && query.has('uploads')],
      ['s3:GetObject and s3:ListBucket', ({ method, query }) => method === 'GET' && !query.has('list-type')],
    ]
    for (const [right, matches] of CASES) {
      test(`${right}, refused to ${matches.toString().match(/'(?:GET|PUT|POST)'/)?.[0]}`, async () => {
        proxy.obey((request) => (matches(request) ? { kind: 'answer', status: 403, code: 'AccessDenied' } : null))
        const expected = new RegExp(
          `\\(AccessDenied: .*\\): they need ${right} for this request, and in all s3:GetObject`,
        )
        await refused({ prefix: 'rights', url: proxy.url }, expected)
      })
    }
  })

  test('each refusal names its own remedy: identity, token, room, key of the bucket, uploads in parts', async () => {
    const CASES: [status: number, code: string, says: RegExp][] = [
      [403, 'InvalidAccessKeyId', /: correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE/],
      [400, 'ExpiredToken', /: renew the session token, in AWS_SESSION_TOKEN/],
      [403, 'QuotaExceeded', /Expected room in the artifact store, .*: free some, or raise its quota/],
      [507, 'XMinioStorageFull', /Expected room in the artifact store, .*: free some, or raise its quota/],
      [403, 'KMS.DisabledException', /: let its account use the key that encrypts the bucket's objects/],
    ]
    for (const [status, code, says] of CASES) {
      proxy.obey(({ method }) => (method === 'PUT' ? { kind: 'answer', status, code } : null))
      await refused({ prefix: 'remedies', url: proxy.url }, says)
    }
    proxy.obey(({ method }) => (method === 'POST' ? { kind: 'answer', status: 405, code: 'MethodNotAllowed' } : null))
    await refused({ prefix: 'remedies', url: proxy.url }, /it does not implement the request. Use a server with/)
  })

  test('a server without conditional writes', async () => {
    proxy.obey(() => ({ kind: 'unconditional' }))
    await refused({ prefix: 'unconditional', url: proxy.url }, /refuse a second put with If-None-Match/)
    proxy.obey(({ method }) => (method === 'PUT' ? { kind: 'answer', status: 501, code: 'NotImplemented' } : null))
    await refused({ prefix: 'unconditional', url: proxy.url }, /refuse a second put with If-None-Match/)
  })

  test('a server that ignores the condition and accepts the second put', async () => {
    // The same request without its condition, which such a server does not read.
    proxy.obey(({ method, path, headers }) =>
      method === 'PUT' && headers['if-none-match'] === '*'
        ? { kind: 'instead', ask: () => open().send({ method, key: path.slice('/records/'.length), body: SECOND }) }
        : null,
    )
    await refused({ prefix: 'ignored', url: proxy.url }, /refuse a second put .*it accepted a second put/)
  })

  test('a server that refuses every conditional put, also the first', async () => {
    proxy.obey(({ method }) => (method === 'PUT' ? { kind: 'answer', status: 412, code: 'PreconditionFailed' } : null))
    await refused({ prefix: 'never', url: proxy.url }, /it refused the first put as well/)
  })

  test('a server with conditional puts but without conditional multipart uploads', async () => {
    proxy.obey(({ method, query }) =>
      method === 'POST' && query.has('uploadId')
        ? { kind: 'answer', status: 200, code: 'none', text: '<CompleteMultipartUploadResult/>' }
        : null,
    )
    await refused({ prefix: 'parts-of-it', url: proxy.url }, /it accepted a second put in parts/)
    proxy.obey(({ method, query }) =>
      method === 'POST' && query.has('uploadId') ? { kind: 'answer', status: 501, code: 'NotImplemented' } : null,
    )
    await refused({ prefix: 'parts-of-it', url: proxy.url }, /it does not implement the request/)
  })

  const OTHER_KINDS: [what: string, status: number, headers: Record<string, string>][] = [
    ['a web server that answers everything with its page', 200, {}],
    ['a web server that has no such page', 404, {}],
    ['a web server that takes no PUT', 405, {}],
    ['a page to sign in', 302, { location: 'https://sign-in.lab.example/' }],
    ['a proxy that refuses every request', 403, {}],
  ]
  for (const [what, status, headers] of OTHER_KINDS) {
    test(`no S3 server: ${what}`, async () => {
      const html = { kind: 'answer', status, code: '', text: '<!doctype html><title>Lab</title>' } as const
      proxy.obey(() => ({ ...html, headers: { 'content-type': 'text/html', ...headers } }))
      await refused({ url: proxy.url }, /Expected an S3 server at http:\/\/127\.0\.0\.1:\d+.*AWS_ENDPOINT_URL_S3/)
    })
  }

  test('TLS: each of an expired, unknown or misnamed certificate and a server without TLS is named', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'longhaul-bucket-tls-'))
    const authority = createAuthority(join(directory, 'authority'))
    const at = async (issued: { certPath: string; keyPath: string }, more: ServerOptions = {}): Promise<string> => {
      const [cert, key] = await Promise.all([readFile(issued.certPath), readFile(issued.keyPath)])
      const door = createSecureServer({ cert, key, ...more })
      closers.push(() => new Promise((resolve) => door.close(resolve)))
      return `https://localhost:${await listenOnLoopback(door)}`
    }
    try {
      await refused({ url: await at(authority.issue('stranger')) }, /unknown authority.*NODE_EXTRA_CA_CERTS/)
      await refused({ url: proxy.url.replace('http:', 'https:') }, /speaks no TLS.*AWS_ENDPOINT_URL_S3/)
      const wants = { requestCert: true, rejectUnauthorized: true, maxVersion: 'TLSv1.2' } as const
      await refused(
        { url: await at(authority.issue('strict'), wants) },
        /wants a client certificate: Longhaul sends none/,
      )
      const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT:@SECLEVEL=0' } as const
      await refused(
        { url: await at(authority.issue('aged'), old) },
        /speaks no version of TLS that this machine accepts/,
      )
      const trusted = async (issued: { certPath: string; keyPath: string }): Promise<string> => {
        const check = [
          `import { openArtifactStore } from ${JSON.stringify(import.meta.resolve('../../src/adapters/artifacts/open-store.ts'))}`,
          `await openArtifactStore({ location: 's3://records/tls', check: true }).catch((error) => console.log(error.code, error.message))`,
        ].join('\n')
        const env = {
          ...process.env,
          ...server.environment,
          AWS_ENDPOINT_URL_S3: await at(issued),
          NODE_EXTRA_CA_CERTS: authority.caPath,
        }
        const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', check], {
          env,
          timeout: HANG_MS,
        })
        return stdout
      }
      assert.match(
        await trusted(authority.issue('expired', -1)),
        /^Config\.Invalid .*certificate that has expired: renew it/,
      )
      assert.match(
        await trusted(authority.issue('named')),
        /^Config\.Invalid .*certificate for another name.*AWS_ENDPOINT_URL_S3/,
      )
    } finally {
      for (const close of closers.splice(0)) await close()
      await rm(directory, { recursive: true, force: true })
    }
  })

  test('a closed port fails after the timeout and names the address and the fix', async () => {
    const url = `http://127.0.0.1:${await freePort()}`
    await assert.rejects(checkBucket(open({ url, giveUpAfterMs: 300 })), (error) => {
      assert.ok(isLonghaulError(error))
      assert.equal(error.code, 'Artifact.Unavailable')
      assert.match(error.message, /got ECONNREFUSED.*start it, or correct AWS_ENDPOINT_URL_S3.*server=http:\/\/127/)
      return true
    })
  })

  test('another region and a wrong clock are each named', async () => {
    proxy.obey(() => ({ kind: 'answer', status: 301, code: 'PermanentRedirect' }))
    await refused({ url: proxy.url }, /region us-east-1, but it is elsewhere.*set AWS_REGION/)
    proxy.obey(() => ({ kind: 'answer', status: 403, code: 'RequestTimeTooSkewed' }))
    await refused({ url: proxy.url }, /clock of this machine/)
  })

  test('longhaul doctor checks it with the credentials of this machine', async (t) => {
    const check = WORK_CHECKS.find(({ name }) => name === 'store')
    const ask = (artifactsDir: string) => check?.run({ ...stackPaths(), artifactsDir })
    useEnvironment(t, server.environment)
    assert.deepEqual(await ask('s3://records/doctor'), { level: 'ok', value: 's3://records/doctor', fix: '' })
    process.env['AWS_SECRET_ACCESS_KEY'] = 'another secret'
    const finding = await ask('s3://records/other')
    assert.equal(finding?.level, 'fail')
    assert.match(finding?.value ?? '', /^s3:\/\/records\/other: Config\.Invalid: .*accept the credentials/)
    assert.doesNotMatch(finding?.value ?? '', /another secret/)
  })

  test('an unreachable server is not reported as a configuration error', async () => {
    proxy.obey(() => ({ kind: 'gone' }))
    await assert.rejects(checkBucket(open({ url: proxy.url, giveUpAfterMs: 300 })), hasCode('Artifact.Unavailable'))
  })
})

test('a command that the bucket refuses ends with 1 in one line that says what to change, and works once it is changed', {
  skip: skip ?? false,
}, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-refused-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const recipe = join(folder, 'mine.yaml')
  await copyFile('recipes/mini.yaml', recipe)
  proxy.obey(() => null)
  const usual = {
    ...server.environment,
    LONGHAUL_ARTIFACTS: 's3://records/refused',
    LONGHAUL_TEMPORAL_ADDRESS: '127.0.0.1:1',
  }
  const table: [env: Record<string, string>, says: RegExp][] = [
    [{ AWS_SECRET_ACCESS_KEY: 'another secret' }, /accept the credentials of this machine \(SignatureDoesNotMatch/],
    [{ AWS_ACCESS_KEY_ID: 'nobody' }, /accept the credentials of this machine \(XAdminUserNotFound/],
    [{ LONGHAUL_ARTIFACTS: 's3://not-there/x' }, /bucket of the artifact store to exist: create it/],
    [{ AWS_ENDPOINT_URL_S3: server.url.replace('http:', 'https:') }, /speaks no TLS: write http:/],
  ]
  for (const [env, says] of table) {
    const restore = changeEnvironment({ ...usual, ...env })
    for (const args of [
      ['report', 'x'],
      ['recipe', 'push', recipe],
    ]) {
      const { exitCode, stdout, stderr } = await longhaul(...args)
      assert.match(stderr, says, args.join(' '))
      assert.match(stderr, /^error Config\.Invalid: [^\n]*\n$/, args.join(' '))
      assert.doesNotMatch(stderr, /another secret|operator=/, args.join(' '))
      assert.deepEqual([exitCode, stdout], [1, ''], args.join(' '))
    }
    restore()
  }
  useEnvironment(t, usual)
  assert.equal((await longhaul('recipe', 'push', recipe)).exitCode, 0)
  assert.match((await longhaul('report', 'x')).stderr, /Config\.NotFound: No run called "x"/)
})

test('every command that writes refuses a bucket that accepts a second put, as workers do', {
  skip: skip ?? false,
}, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-unconditional-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const recipe = join(folder, 'mine.yaml')
  const rows = join(folder, 'rows.json')
  await copyFile('recipes/mini.yaml', recipe)
  await writeFile(rows, '[{"instance_id": "a__b-1", "model_name_or_path": "m", "model_patch": ""}]')
  useEnvironment(t, {
    ...server.environment,
    AWS_ENDPOINT_URL_S3: proxy.url,
    LONGHAUL_TEMPORAL_ADDRESS: '127.0.0.1:1',
    HF_TOKEN: 'unused',
  })
  const commands = [
    ['recipe', 'push', recipe],
    ['run', 'remove', 'x'],
    ['track', 'x'],
    ['publish', 'promoted', '--to', 'a/b'],
    ['grade', rows, '--suite', rows],
  ]
  for (const [at, args] of commands.entries()) {
    // One store each, because a process checks a bucket once; it exists, so that readers accept it.
    const restore = changeEnvironment({ LONGHAUL_ARTIFACTS: `s3://records/unconditional-${at}` })
    await open({ prefix: `unconditional-${at}` }).store.putRecord('suites/x.json', {})
    proxy.obey(() => ({ kind: 'unconditional' }))
    const { exitCode, stdout, stderr } = await longhaul(...args)
    restore()
    assert.match(stderr, /error Config\.Invalid: [^\n]*refuse a second put with If-None-Match[^\n]*\n$/, args.join(' '))
    assert.deepEqual([exitCode, stdout], [1, ''], args.join(' '))
  }
  useEnvironment(t, { LONGHAUL_ARTIFACTS: 's3://records/unconditional-0' })
  assert.equal((await longhaul('recipe', 'list')).exitCode, 0, 'readers need no conditional writes')
  assert.equal((await longhaul('recipe', 'push', recipe, '--dry-run')).exitCode, 0)
})

test('readers refuse an empty prefix in one line after one request, and only a writer starts one', {
  skip: skip ?? false,
}, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-prefix-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const recipe = join(folder, 'mine.yaml')
  await copyFile('recipes/mini.yaml', recipe)
  proxy.obey(() => null)
  useEnvironment(t, {
    ...server.environment,
    AWS_ENDPOINT_URL_S3: proxy.url,
    LONGHAUL_ARTIFACTS: 's3://records/mistyped',
    LONGHAUL_TEMPORAL_ADDRESS: '127.0.0.1:1',
  })
  for (const args of [
    ['report', 'x'],
    ['ledger', 'verify', 'x'],
    ['view'],
    ['export', 'x', '--format', 'csv', '--out', join(folder, 'out')],
    ['run', 'remove', 'x', '--dry-run'],
    ['publish', 'promoted', '--to', 'a/b', '--dry-run'],
  ]) {
    proxy.seen.length = 0
    const { exitCode, stdout, stderr } = await longhaul(...args)
    assert.deepEqual([exitCode, stdout], [1, ''], args.join(' '))
    assert.match(
      stderr,
      /^error Config\.NotFound: No artifact store is at s3:\/\/records\/mistyped: [^\n]*LONGHAUL_ARTIFACTS[^\n]*\n$/,
    )
    assert.deepEqual(
      proxy.seen.map(({ method, query }) => [method, query.get('prefix'), query.get('max-keys')]),
      [['GET', 'mistyped/', '1']],
    )
  }
  const listed = await longhaul('recipe', 'list')
  assert.equal(listed.exitCode, 0)
  assert.match(listed.stderr, /^without pushed recipes: No artifact store is at s3:\/\/records\/mistyped/)
  assert.equal((await longhaul('recipe', 'push', recipe)).exitCode, 0)
  assert.match((await longhaul('recipe', 'list')).stdout, /^mine \(pushed\)$/m)
  assert.match((await longhaul('ledger', 'verify', 'x')).stderr, /Config\.NotFound: No run called "x"/)
})

test('stored objects are readable without Longhaul and equal the files of a directory store', {
  skip: skip ?? false,
}, async () => {
  const { store } = open({ prefix: 'plain' })
  await store.putRecord('runs/a/run.json', { run: 'a' })
  assert.match(
    await readFile(server.fileOf('plain/runs/a/run.json'), 'utf8'),
    /^\{"run":"a","sha256":"[0-9a-f]{64}"\}\n$/,
  )
  assert.equal(store.locate('runs/a/run.json'), 's3://records/plain/runs/a/run.json')
  assert.throws(() => store.path('policies/v1'), hasCode('Config.Invalid'))
})
