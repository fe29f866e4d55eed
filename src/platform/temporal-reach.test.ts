import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createServer } from 'node:tls'
import { createAuthority } from '../../test/support/temporal-gate.ts'
import { listenOnLoopback } from '../../test/support/loopback.ts'
import { probeTemporal } from './temporal-reach.ts'

/** OpenSSL 3.5 renamed the alerts of TLS 1.2, and the settings were no longer named. */
test('a server of TLS 1.2 that wants a client certificate is named with the settings', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'temporal-reach-'))
  t.after(() => rm(directory, { recursive: true, force: true }))
  const authority = createAuthority(directory)
  const { certPath, keyPath } = authority.issue('strict')
  const [cert, key, ca] = await Promise.all([readFile(certPath), readFile(keyPath), readFile(authority.caPath)])
  const server = createServer({ cert, key, ca, requestCert: true, maxVersion: 'TLSv1.2', ALPNProtocols: ['h2'] })
  server.on('tlsClientError', () => undefined)
  const port = await listenOnLoopback(server)
  t.after(() => server.close())
  const credentials = { tls: { serverRootCACertificate: ca, serverNameOverride: 'localhost' } }
  const found = await probeTemporal({ address: `127.0.0.1:${port}`, namespace: 'default', credentials })
  assert.match(found.finding, /refuses the handshake.*set TEMPORAL_TLS_CLIENT_CERT_PATH/)
  assert.deepEqual([found.mayAnswerLater, found.namesRemedy], [false, true])
})
