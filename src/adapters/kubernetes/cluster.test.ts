import assert from 'node:assert/strict'
import { createServer, type RequestListener } from 'node:http'
import { test } from 'node:test'
import { closeServer, freePort, listenOnLoopback } from '../../../test/support/loopback.ts'
import type { ClusterAccess } from './cluster-access.ts'
import { connectCluster } from './cluster.ts'
import { toClusterError } from './cluster-errors.ts'

/** What an operator reads if the first request of a worker fails. */
async function messageOf(access: Partial<ClusterAccess> & { server: string }, timeoutMs?: number): Promise<string> {
  const credentials = async () => ({})
  const trust = { ca: undefined, skipsVerification: false, serverName: undefined, namespace: 'lab', credentials }
  const cluster = await connectCluster({ access: { ...trust, ...access } })
  try {
    const asked = cluster.ask({ path: cluster.pathOf('pods'), ...(timeoutMs === undefined ? {} : { timeoutMs }) })
    const error = await asked.then(
      () => null,
      (cause: unknown) => toClusterError(cause, { doing: 'looking at the pods', details: {} }),
    )
    return error?.message ?? 'no error'
  } finally {
    cluster.dispose()
  }
}

async function serving<T>(answer: RequestListener, use: (address: string) => Promise<T>): Promise<T> {
  const server = createServer(answer)
  try {
    return await use(`127.0.0.1:${await listenOnLoopback(server)}`)
  } finally {
    server.closeAllConnections()
    await closeServer(server)
  }
}

test('a page and a redirect to one are named as no Kubernetes API, and no redirect is followed', async () => {
  const followed: string[] = []
  const answers: RequestListener[] = [
    (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<html>sign in'),
    ({ url = '' }, response) => {
      followed.push(url)
      response.writeHead(302, { location: '/login' }).end()
    },
  ]
  for (const answer of answers) {
    const message = await serving(answer, (address) => messageOf({ server: `http://${address}` }))
    assert.match(message, /is not the Kubernetes API \((?:200|302)\) → correct the server in the kubeconfig/)
  }
  assert.deepEqual(followed, ['/api/v1/namespaces/lab/pods'])
})

test('each failed connection is one line with its own remedy, without the numbers and files of OpenSSL', async () => {
  const garbage = async () => ({ cert: 'garbage', key: 'garbage' })
  const plain = (_: unknown, response: { end(): void }): void => response.end()
  const cases: [message: string, says: RegExp][] = [
    [
      await serving(plain, (address) => messageOf({ server: `https://${address}` })),
      /: wrong version number → the address .* speaks no TLS/,
    ],
    [
      await messageOf({ server: `https://127.0.0.1:${await freePort()}`, credentials: garbage }),
      /no start line → a certificate or a key in the kubeconfig/,
    ],
    [await messageOf({ server: 'https://127.0.0.1:1' }), /bad port → the address in the kubeconfig .* does not answer/],
    [
      await serving(
        () => undefined,
        (address) => messageOf({ server: `http://${address}` }, 50),
      ),
      /aborted due to timeout → the address in the kubeconfig .* does not answer/,
    ],
  ]
  for (const [message, says] of cases) {
    assert.match(message, says)
    assert.doesNotMatch(message, /\n|error:[0-9A-F]{8}|\.c:/)
  }
})
