import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { finishProgress } from '../engine/engine-errors.ts'
import { pullFailure } from './pull-failure.ts'

/** Words of engines 20.10 to 29, and of containerd under a kubelet. */
const SAID: [reason: string, code: string, engine: RegExp, node: RegExp][] = [
  [
    'write /var/lib/docker/tmp/GetImageBlob1: no space left on device',
    'Sandbox.OutOfDisk',
    /disk of images is full/,
    /disk of images is full/,
  ],
  [
    'no matching manifest for linux/amd64 in the manifest list entries',
    'Sandbox.ImageMissing',
    /no build for linux\/amd64/,
    /no build for linux\/amd64/,
  ],
  [
    'pull access denied for lab/x, repository does not exist or may require docker login: denied: requested access to the resource is denied',
    'Sandbox.ImageMissing',
    /does not have the image, or hides it.*docker login/,
    /imagePullSecret/,
  ],
  [
    '(HTTP code 500) server error - unauthorized: incorrect username or password',
    'Sandbox.PullFailed',
    /docker login/,
    /imagePullSecret/,
  ],
  [
    'failed to authorize: failed to fetch anonymous token: unexpected status: 403 Forbidden',
    'Sandbox.PullFailed',
    /docker login/,
    /imagePullSecret/,
  ],
  [
    'toomanyrequests: You have reached your pull rate limit.',
    'Sandbox.PullFailed',
    /registry-mirrors/,
    /imagePullSecret/,
  ],
  [
    'manifest for lab/x:1 not found: manifest unknown: manifest unknown',
    'Sandbox.ImageMissing',
    /longhaul images build/,
    /push it/,
  ],
  [
    'Get "https://10.0.0.1:5000/v2/": http: server gave HTTP response to HTTPS client',
    'Sandbox.PullFailed',
    /insecure-registries/,
    /containerd/,
  ],
  [
    'Get "https://10.0.0.1:5000/v2/": x509: certificate signed by unknown authority',
    'Sandbox.PullFailed',
    /certs\.d/,
    /containerd on each node/,
  ],
  [
    'Get "https://r/v2/": tls: failed to verify certificate: x509: certificate has expired or is not yet valid',
    'Sandbox.PullFailed',
    /renew it/,
    /renew it/,
  ],
  [
    "error unmarshalling content: invalid character '<' looking for beginning of value",
    'Sandbox.PullFailed',
    /login page/,
    /login page/,
  ],
  ['filesystem layer verification failed for digest sha256:11', 'Sandbox.PullFailed', /damaged/, /damaged/],
  [
    'received unexpected HTTP status: 503 Service Unavailable',
    'Sandbox.PullFailed',
    /registry itself fails/,
    /registry itself fails/,
  ],
  [
    'dial tcp: lookup registry.invalid: no such host',
    'Sandbox.PullFailed',
    /proxy of the engine/,
    /network of the nodes/,
  ],
  ['(HTTP code 500) server error - something else', 'Sandbox.PullFailed', /could not be pulled/, /could not be pulled/],
]

for (const [reason, code, engine, node] of SAID) {
  test(`explains: ${reason.slice(0, 70)}`, () => {
    for (const [by, message] of [
      ['engine', engine],
      ['node', node],
    ] as const) {
      const error = pullFailure({ image: 'lab/x:1', reason, by })
      assert.equal(error.code, code)
      assert.match(error.message, message)
      assert.match(error.message, /image=lab\/x:1/)
    }
  })
}

test('a progress that reports an error, is no progress or breaks off with one is a failure', async () => {
  const progress = (...lines: string[]) => finishProgress(Readable.from(lines.map((line) => `${line}\r\n`)))
  await progress('{"status":"Pulling from lab/x","id":"1"}', '', '{"status":"Status: Downloaded newer image"}')
  await assert.rejects(
    progress('{"status":"a"}', '{"errorDetail":{"message":"full"},"error":"disk"}', '{"status":"b"}'),
    {
      message: 'full',
    },
  )
  await assert.rejects(progress('<html>'), /expected the engine’s progress, got "<html>"/)
  const broken = new Readable({ read: () => undefined })
  const ended = assert.rejects(finishProgress(broken), /reset/)
  broken.push('{"status":"a"}\n')
  broken.destroy(new Error('reset'))
  await ended
})
