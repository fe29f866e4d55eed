import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { defaultPayloadConverter, type Payload } from '@temporalio/common'
import { isLonghaulError } from '../contracts/errors.ts'
import { dataConverterOf } from './data-converter.ts'
import { type CodecKey, createPayloadCodec, readCodecKeys } from './payload-codec.ts'

const directory = mkdtempSync(join(tmpdir(), 'longhaul-codec-'))
after(() => rmSync(directory, { recursive: true, force: true }))

const key = (id: string): CodecKey => ({ id, secret: randomBytes(32) })
const payloadOf = (value: unknown): Payload => {
  const payload = defaultPayloadConverter.toPayload(value)
  assert.ok(payload !== undefined)
  return payload
}

async function messageOf(failing: () => unknown): Promise<string> {
  try {
    await failing()
  } catch (error) {
    assert.ok(isLonghaulError(error), String(error))
    assert.equal(error.code, 'Config.Invalid')
    return error.message
  }
  throw new assert.AssertionError({ message: 'Expected a refusal' })
}

test('decodes what it encoded for values of every size, and no encoded text is readable', async () => {
  const codec = createPayloadCodec([key('a')])
  for (const value of ['', 'canary', { nested: ['canary', 1, null] }, 'canary '.repeat(100_000), new Uint8Array(3)]) {
    const [sealed, again] = await codec.encode([payloadOf(value), payloadOf(value)])
    assert.ok(sealed?.data instanceof Uint8Array && again?.data instanceof Uint8Array)
    assert.doesNotMatch(Buffer.from(sealed.data).toString('latin1'), /canary|json/)
    assert.notDeepEqual(sealed.data, again.data)
    const [opened] = await codec.decode([sealed])
    assert.deepEqual(opened === undefined ? null : defaultPayloadConverter.fromPayload(opened), value)
  }
})

test('compresses text before it encrypts it', async () => {
  const [sealed] = await createPayloadCodec([key('a')]).encode([payloadOf('the same words again '.repeat(1_000))])
  assert.ok((sealed?.data?.length ?? 0) < 1_000)
})

test('encodes with a new first key and decodes with the old one, whose absence is named', async () => {
  const [old, fresh] = [key('2026-10'), key('2026-11')]
  const [before] = await createPayloadCodec([old]).encode([payloadOf('x')])
  assert.ok(before !== undefined)
  const rotated = createPayloadCodec([fresh, old])
  const [now] = await rotated.encode([payloadOf('x')])
  assert.equal(Buffer.from(now?.metadata?.['encryption-key-id'] ?? []).toString(), '2026-11')
  assert.equal((await rotated.decode([before])).length, 1)
  assert.match(
    await messageOf(() => createPayloadCodec([fresh]).decode([before])),
    /key "2026-10".*LONGHAUL_CODEC_KEYS/,
  )
})

test('without any key it writes payloads as they are, and names the variable that an encrypted one needs', async () => {
  const { dataConverter } = dataConverterOf({})
  const [codec] = dataConverter.payloadCodecs ?? []
  assert.ok(codec !== undefined)
  const plain = payloadOf('plain')
  assert.deepEqual(await codec.encode([plain]), [plain])
  assert.deepEqual(await codec.decode([plain]), [plain])
  const sealed = await createPayloadCodec([key('lost')]).encode([plain])
  assert.match(
    await messageOf(() => codec.decode(sealed)),
    /the key "lost", and LONGHAUL_CODEC_KEYS is not set: name the file/,
  )
})

test('reads histories from before the keys', async () => {
  const plain = payloadOf({ a: 1 })
  assert.deepEqual(await createPayloadCodec([key('a')]).decode([plain]), [plain])
})

test('refuses an altered payload, another key’s name and another kind', async () => {
  const [one, two] = [key('one'), key('two')]
  const codec = createPayloadCodec([one, two])
  const [sealed] = await codec.encode([payloadOf('x'.repeat(1_000))])
  assert.ok(sealed?.data !== null && sealed?.data !== undefined)
  const data = sealed.data
  const changed = (at: number): Uint8Array => Uint8Array.from(data, (byte, index) => (index === at ? byte ^ 3 : byte))
  for (const at of [0, 1, 14, data.length - 1]) {
    assert.match(await messageOf(() => codec.decode([{ ...sealed, data: changed(at) }])), /was altered/)
  }
  const renamed = { metadata: { ...sealed.metadata, 'encryption-key-id': Buffer.from('two') }, data }
  assert.match(await messageOf(() => codec.decode([renamed])), /was altered/)
  for (const length of [0, 1, 13, 20]) {
    assert.match(await messageOf(() => codec.decode([{ ...sealed, data: data.slice(0, length) }])), /was altered/)
  }
})

test('reads a file of keys with comments and rotation, and reports errors without a secret', async () => {
  const path = join(directory, 'keys')
  const secret = randomBytes(32).toString('base64')
  const read = (text: string): ReturnType<typeof readCodecKeys> => {
    writeFileSync(path, text)
    return readCodecKeys({ LONGHAUL_CODEC_KEYS: path })
  }
  assert.deepEqual(
    read(`# newest first\nb ${secret}\n\na ${secret}\n`)?.map(({ id }) => id),
    ['b', 'a'],
  )
  assert.equal(readCodecKeys({}), null)
  const short = Buffer.from('sixteen bytes!!!').toString('base64')
  for (const [text, pattern] of [
    ['', /got none/],
    [`a ${short}\n`, /line 1, got 16 bytes; make one: openssl rand -base64 32/],
    [`${secret}\n`, /Expected "ID BASE64"/],
    [`a ${secret} more\n`, /Expected "ID BASE64"/],
    [`a ${secret}\na ${secret}\n`, /"a" twice/],
  ] as const) {
    const message = await messageOf(() => read(text))
    assert.match(message, pattern)
    assert.ok(!message.includes(secret) && !message.includes(short))
  }
  assert.match(await messageOf(() => readCodecKeys({ LONGHAUL_CODEC_KEYS: join(directory, 'none') })), /readable file/)
})

test('refuses a file of keys without an end, a directory, and a key with trailing text at once', async () => {
  await assert.rejects(async () => readCodecKeys({ LONGHAUL_CODEC_KEYS: '/dev/zero' }), {
    code: 'Config.Invalid',
    message: /got more than 65536 bytes/,
  })
  await assert.rejects(async () => readCodecKeys({ LONGHAUL_CODEC_KEYS: '/dev' }), {
    message: /readable file .*EISDIR/,
  })
  const directory = mkdtempSync(join(tmpdir(), 'longhaul-codec-'))
  try {
    const path = join(directory, 'keys')
    const key = Buffer.alloc(32, 7).toString('base64')
    for (const wrong of [`${key}AAAA`, `!${key}`, key.replace('B', 'B*')]) {
      writeFileSync(path, `a ${wrong}\n`)
      await assert.rejects(
        async () => readCodecKeys({ LONGHAUL_CODEC_KEYS: path }),
        { message: /got other characters/ },
        wrong,
      )
    }
    writeFileSync(path, `a ${key.replace(/=+$/, '')}\n`)
    assert.equal(readCodecKeys({ LONGHAUL_CODEC_KEYS: path })?.length, 1)
  } finally {
    rmSync(directory, { recursive: true })
  }
})

test('refuses a key that stands where its file should, and does not repeat it', async () => {
  const secret = randomBytes(32)
  const texts = [secret.toString('base64'), `id ${secret.toString('base64')}\n`, `id:${secret.toString('hex')}`]
  for (const text of texts) {
    const message = await messageOf(() => readCodecKeys({ LONGHAUL_CODEC_KEYS: text }))
    assert.match(message, /LONGHAUL_CODEC_KEYS to be the path of a file/)
    assert.ok(!message.includes(secret.toString('base64').slice(0, 8)), message)
    assert.ok(!message.includes(secret.toString('hex').slice(0, 8)), message)
  }
  const absent = join(directory, 'a-name-that-is-much-longer-than-a-key-in-base64-would-be.keys')
  assert.ok((await messageOf(() => readCodecKeys({ LONGHAUL_CODEC_KEYS: absent }))).includes(absent))
})
