/** Alarms over real sockets: what a receiver gets, and what a bad one can do. */
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { HANG_MS } from '../../../test/support/hang.ts'
import { startReceiver } from '../../../test/support/webhook-receiver.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import { postWebhook, type PostWebhookInput, type PostWebhookOptions } from './post-webhook.ts'

const SECRET = 'a-key-that-nothing-may-show'
const TOKEN = 'token-in-the-address'
const BODY = '{"text":"Grüße"}'

function message(url: string, changes: Partial<PostWebhookInput> = {}): PostWebhookInput {
  return {
    url: `${url}/hook/${TOKEN}`,
    urlVariable: 'ALARM_URL',
    secret: SECRET,
    id: 'failure-1',
    body: BODY,
    ...changes,
  }
}

const never = new AbortController().signal

/** The code, and that no part of the error says the address or the key. */
async function refusal(
  input: PostWebhookInput,
  options: PostWebhookOptions,
): Promise<{ code: string; message: string }> {
  const error: unknown = await postWebhook(input, never, options).then(
    () => assert.fail('the receiver accepted it'),
    (error: unknown) => error,
  )
  assert.ok(isLonghaulError(error), inspect(error))
  const everything = inspect(error, { depth: 20, showHidden: true })
  for (const secret of [SECRET, TOKEN, new URL(input.url).host]) assert.ok(!everything.includes(secret), everything)
  return { code: error.code, message: error.message }
}

test('a receiver can verify sender, time and integrity of an alarm', async () => {
  await using receiver = await startReceiver([204])
  const at = new Date('2026-05-01T02:00:00Z')
  await postWebhook(message(receiver.url), never, { at, inside: [receiver.host] })
  const [got] = receiver.got
  assert.equal(got?.body, BODY)
  assert.equal(got.path, `/hook/${TOKEN}`)
  assert.deepEqual([got.headers['webhook-id'], got.headers['webhook-timestamp']], ['failure-1', '1777600800'])
  // By hand, from the words of standardwebhooks.com.
  const signature = createHmac('sha256', SECRET).update(`failure-1.1777600800.${BODY}`).digest('base64')
  assert.equal(got.headers['webhook-signature'], `v1,${signature}`)
})

test('decodes a key in the spelling of receivers’ libraries, and signs nothing without one', async () => {
  await using receiver = await startReceiver([200, 200])
  const key = Buffer.from(SECRET).toString('base64')
  const at = new Date('2026-05-01T02:00:00Z')
  const options = { at, inside: [receiver.host] }
  await postWebhook(message(receiver.url, { secret: `whsec_${key}` }), never, options)
  await postWebhook(message(receiver.url, { secret: null }), never, options)
  const signature = createHmac('sha256', SECRET).update(`failure-1.1777600800.${BODY}`).digest('base64')
  assert.deepEqual(
    receiver.got.map(({ headers }) => headers['webhook-signature']),
    [`v1,${signature}`, undefined],
  )
})

test('temporary failures are unavailable, others are refused, and a redirect is not followed', async () => {
  await using elsewhere = await startReceiver([200])
  await using receiver = await startReceiver([
    500,
    503,
    429,
    408,
    400,
    401,
    404,
    410,
    { status: 307, location: elsewhere.url },
  ])
  const options = { inside: [receiver.host, elsewhere.host] }
  const codes = []
  for (let at = 0; at < 9; at += 1) codes.push((await refusal(message(receiver.url), options)).code)
  assert.deepEqual(codes, [...Array(4).fill('Alarm.Unavailable'), ...Array(5).fill('Alarm.Refused')])
  assert.equal(elsewhere.got.length, 0)
})

test('a private address is not dialled unless the operator names its host', async () => {
  await using receiver = await startReceiver([200])
  const { code, message: says } = await refusal(message(receiver.url), {})
  assert.equal(code, 'Alarm.Refused')
  assert.match(says, /LONGHAUL_ALARM_HOSTS/)
  assert.equal(receiver.connections(), 0)
  // Nor through a public name that leads there.
  const named = message(receiver.url.replace('127.0.0.1', 'hooks.example.org'))
  assert.equal(
    (await refusal(named, { resolve: async () => ['127.0.0.1', '::1', '169.254.169.254'] })).code,
    'Alarm.Refused',
  )
  assert.equal(receiver.connections(), 0)
})

test('an exchange ends with a receiver that is silent, never ends its answer, or closes', {
  timeout: HANG_MS,
}, async () => {
  for (const behaviour of ['silent', 'endless-headers', 'closes'] as const) {
    await using receiver = await startReceiver([behaviour])
    const { code } = await refusal(message(receiver.url), { inside: [receiver.host], answerMs: 200 })
    assert.equal(code, 'Alarm.Unavailable', behaviour)
  }
  await using talker = await startReceiver(['endless-body'])
  await postWebhook(message(talker.url), never, { inside: [talker.host] })
  await using gone = await startReceiver([200])
  await gone[Symbol.asyncDispose]()
  assert.match((await refusal(message(gone.url), { inside: [gone.host] })).message, /ECONNREFUSED/)
  // A resolver that never answers is bounded too.
  const slow = { resolve: () => new Promise<string[]>(() => undefined), answerMs: 200 }
  assert.equal((await refusal(message('http://hooks.example.org'), slow)).code, 'Alarm.Unavailable')
})

test('an invalid address, or one with a user, is refused by the name of its variable only', async () => {
  for (const url of [`ftp://inner.example.net/${TOKEN}`, `https://me:${TOKEN}@inner.example.net/`]) {
    const { code, message: says } = await refusal(message('http://x', { url }), {})
    assert.equal(code, 'Config.Invalid')
    assert.match(says, /ALARM_URL/)
  }
  await assert.rejects(
    postWebhook(message('', { url: `no address ${TOKEN}` }), never),
    (error: Error) => !error.message.includes(TOKEN),
  )
})

test('a cancelled activity ends the exchange', async () => {
  await using receiver = await startReceiver(['silent'])
  const cancel = new AbortController()
  const sending = postWebhook(message(receiver.url), cancel.signal, { inside: [receiver.host] })
  await receiver.connected
  cancel.abort(new Error('cancelled'))
  await assert.rejects(sending, /cancelled/)
})
