/**
 * A5 with a network: what a recipe allows is reached through the worker's proxy, by programs that know nothing but the usual
 * variables. Anything else is refused, counted and told; nothing leads to the host's own networks. Only the last step is
 * replaced here: names and addresses are checked for real, and the connection to a public address ends at a server of the test.
 */
import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { after, before, test } from 'node:test'

import { createDockerSandboxHost, type DockerSandboxHost } from '../../../src/adapters/docker/sandbox/sandbox-host.ts'
import { PROXY_PORT } from '../../../src/adapters/docker/sandbox/relay/relay-pool.ts'
import { buildTaskImage } from '../../../src/adapters/docker/images/images.ts'
import type { SandboxHandle } from '../../../src/contracts/sandbox.types.ts'
import {
  codeOf,
  createPlayer,
  createSandboxFixture,
  never,
  type Player,
  probe,
  python,
  repositoryTar,
  type SandboxFixture,
  untilTrue,
} from '../sandbox-fixture.ts'
import { listenOnLoopback } from '../../support/loopback.ts'

const ALLOWED = [
  'packages.example.org',
  '*.mirror.example.org:8443',
  'rebound.example.org',
  'mixed.example.org',
  'slow.example.org',
]
/** What the host's name server would say. */
const NAMES: Record<string, string[]> = {
  'packages.example.org': ['93.184.215.14'],
  'a.mirror.example.org': ['2606:4700::1111'],
  'rebound.example.org': ['127.0.0.1', '10.0.0.1', '169.254.169.254', '::1', '::ffff:127.0.0.1'],
  'mixed.example.org': ['192.168.0.1', '93.184.215.14'],
  'slow.example.org': ['93.184.215.14'],
}

let fixture: SandboxFixture
let server: Server
let dialled: string[] = []
let asked: string[] = []
let told: Record<string, string | number>[] = []
const hosts: DockerSandboxHost[] = []
let host: DockerSandboxHost
let sandbox: SandboxHandle
let player: Player

function newHost(): DockerSandboxHost {
  const { port } = server.address() as AddressInfo
  const made = createDockerSandboxHost({
    engine: fixture.engine,
    hostId: 'test-host',
    hostQueue: 'sandbox.test',
    log: (message, facts) => told.push({ message, ...facts }),
    network: {
      resolve: async (name) => {
        asked.push(name)
        return NAMES[name] ?? []
      },
      dial: (at) => {
        dialled.push(`${at.address} ${at.port}`)
        return connect(port, '127.0.0.1')
      },
      limits: { totalBytes: 4_000_000, idleMs: 1500 },
    },
  })
  hosts.push(made)
  return made
}

before(async () => {
  fixture = await createSandboxFixture('network', { 'm.py': 'x = 1\n' })
  server = createServer((request, response) => {
    if (request.url === '/never') return
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const size = Number(/^\/bytes\/(\d+)$/.exec(request.url ?? '')?.[1] ?? -1)
      if (size >= 0) return response.end(Buffer.alloc(size, 'x'))
      const { host: name, 'proxy-authorization': secret = 'none' } = request.headers
      response.end(`${request.method} ${request.url} ${name} ${secret} ${Buffer.concat(chunks).toString()}\n`)
    })
  })
  await listenOnLoopback(server)
  host = newHost()
  sandbox = await host.open(fixture.openInput({ allowedHosts: ALLOWED }), never)
  player = createPlayer(host, sandbox)
})

after(async () => {
  for (const made of hosts) made.dispose()
  server.close()
  server.closeAllConnections()
  await fixture.dispose()
})

/** As pip and most programs do it: by the variables, in the clear or through a tunnel. */
const FETCH = `import http.client, os, urllib.request, urllib.parse
def fetch(url, data=None):
    try: return urllib.request.urlopen(url, data, 20).read().decode().strip()
    except Exception as error: return type(error).__name__ + ' ' + str(error)
def tunnel(name, port, path='/'):
    proxy = urllib.parse.urlparse(os.environ['HTTPS_PROXY'])
    link = http.client.HTTPConnection(proxy.hostname, proxy.port, timeout=20)
    link.set_tunnel(name, port)
    try: link.request('GET', path); return link.getresponse().read().decode().strip()
    except Exception as error: return type(error).__name__ + ' ' + str(error)
`

async function endRelay(by: Player, turn: { turn: number; token: string; fence: number }): Promise<void> {
  await by.play('kill -9 $(cat /.lh/agent/relay)', turn)
  await untilTrue(async () =>
    (await probe(fixture, sandbox, 'ls /proc/$(cat /.lh/agent/relay)/stat || echo gone')).includes('gone'),
  )
}

test('allowed hosts answer directly and through a tunnel, and the turn reports the traffic', async () => {
  const { text, network } = await player.play(
    python(`${FETCH}
print(fetch('http://packages.example.org/simple/?a=1'))
print(fetch('http://packages.example.org/upload', b'x' * 70000)[-20:])
print(tunnel('packages.example.org', 443, '/tls'))
print(tunnel('a.mirror.example.org', 8443))
print(fetch('http://mixed.example.org/'))`),
  )
  assert.deepEqual(text.split('\n'), [
    'GET /simple/?a=1 packages.example.org none',
    'x'.repeat(20),
    'GET /tls packages.example.org:443 none',
    'GET / a.mirror.example.org:8443 none',
    'GET / mixed.example.org none',
    '',
  ])
  assert.deepEqual(dialled, [
    '93.184.215.14 80',
    '93.184.215.14 80',
    '93.184.215.14 443',
    '2606:4700::1111 8443',
    '93.184.215.14 80',
  ])
  assert.deepEqual([network?.opened, network?.refused], [5, 0])
  assert.ok((network?.bytes ?? 0) > 70_000)
})

test('refuses other hosts, ports, addresses and private names with 403, and counts and reports each request', async () => {
  dialled = []
  asked = []
  told = []
  const { text, network } = await player.play(
    python(`${FETCH}
for url in ('http://other.example.org/', 'http://packages.example.org:22/', 'http://127.0.0.1:8900/', 'http://[::1]/', 'http://169.254.169.254/latest/meta-data', 'http://rebound.example.org/', 'http://2130706433/'):
    try: urllib.request.build_opener(urllib.request.ProxyHandler({'http': os.environ['http_proxy']})).open(url, timeout=20); print('open')
    except Exception as error: print(getattr(error, 'code', error))
print(tunnel('other.example.org', 443))
print(tunnel('127.0.0.1', 7233))
print(tunnel('rebound.example.org', 443))`),
  )
  // Programs bypass the proxy for their own loopback, where no process listens.
  assert.equal(text.match(/^403$/gm)?.length, 6, text)
  assert.match(text, /Connection refused/)
  assert.equal(text.match(/^OSError Tunnel connection failed: 403/gm)?.length, 3, text)
  assert.deepEqual(dialled, [])
  assert.deepEqual([...new Set(asked)], ['rebound.example.org'])
  assert.equal(network?.refused, 9)
  assert.ok(network?.refusedHosts.includes('169.254.169.254'), String(network?.refusedHosts))
  assert.equal(told.length, 9)
  assert.deepEqual(told[0], {
    message: 'sandbox network: refused',
    sandbox: sandbox.name,
    host: 'other.example.org',
    why: 'not on the allow list',
  })
})

test('a sandbox has no route, name resolution or neighbour except the proxy', async () => {
  const { text } = await player.play(
    python(`import socket
for family, address in ((socket.AF_INET, ('1.1.1.1', 53)), (socket.AF_INET, ('172.17.0.1', 80)), (socket.AF_INET6, ('2606:4700::1111', 53))):
    try: socket.socket(family, socket.SOCK_STREAM).connect(address); print('open')
    except OSError as error: print('closed')
try: socket.getaddrinfo('packages.example.org', 80); print('open')
except OSError as error: print('closed')
print(open('/proc/net/dev').read().count(':'))`),
  )
  assert.equal(text, 'closed\nclosed\nclosed\nclosed\n1\n')
})

test('the next turn has its network again after the agent kills the relay under a new worker', async () => {
  const later = newHost()
  const second = createPlayer(later, sandbox)
  const ask = python(`${FETCH}print(fetch('http://packages.example.org/again'))`)
  const expected = 'GET /again packages.example.org none\n'
  assert.equal((await second.play(ask, { turn: 100, token: 'a', fence: 2 })).text, expected)
  hosts[0]?.dispose()
  assert.equal((await second.play(ask, { turn: 101, token: 'b', fence: 2 })).text, expected)
  await endRelay(second, { turn: 102, token: 'c', fence: 2 })
  const again = await second.play(ask, { turn: 103, token: 'd', fence: 2 })
  assert.equal(again.text, expected)
  host = later
})

test('bounds silence and volume, and a client that does not read cannot block others permanently', async () => {
  const bounded = createPlayer(host, sandbox)
  const silent = await bounded.play(python(`${FETCH}print(fetch('http://slow.example.org/never')[:30])`), {
    turn: 200,
    token: 'e',
    fence: 3,
  })
  assert.match(silent.text, /^(HTTPError|RemoteDisconnected|ConnectionResetError|IncompleteRead)/)
  const big = await bounded.play(
    python(`${FETCH}print(len(fetch('http://packages.example.org/bytes/2000000')))
print(len(fetch('http://packages.example.org/bytes/9000000')) < 1000)
print(fetch('http://packages.example.org/'))`),
    { turn: 201, token: 'f', fence: 3 },
  )
  assert.match(big.text, /^2000000\nTrue\nHTTPError HTTP Error 403/)
  await endRelay(bounded, { turn: 202, token: 'g', fence: 3 })
  const later = await bounded.play(python(`${FETCH}print(fetch('http://packages.example.org/'))`), {
    turn: 203,
    token: 'h',
    fence: 3,
  })
  assert.match(later.text, /^HTTPError HTTP Error 403/, 'a new relay must not reset the volume of its sandbox')
})

test('turns continue without a network when the agent occupies the port of its relay', async () => {
  const squatter = createPlayer(host, sandbox)
  told = []
  await squatter.play(
    `kill -9 $(cat /.lh/agent/relay)
python3 - ${PROXY_PORT} <<'EOF_PYTHON' >/dev/null 2>&1 &
import socket, sys
door = socket.create_server(('127.0.0.1', int(sys.argv[1])), reuse_port=False)
while True: door.accept()
EOF_PYTHON
sleep 1`,
    { turn: 300, token: 'i', fence: 4 },
  )
  assert.equal((await squatter.play('echo on', { turn: 301, token: 'j', fence: 4 })).text, 'on\n')
  assert.ok(told.some(({ message }) => message === 'sandbox network: not open'))
})

test('closing the sandbox removes its network; an image without perl is refused with what it needs', async () => {
  await host.close(sandbox)
  const without = `longhaul-test/no-perl:${process.pid}`
  const base = fixture.image
  await buildTaskImage({ engine: fixture.engine, base, tag: without, repoTar: repositoryTar({ a: '1' }), labels: {} })
  try {
    // A path that hides the program is as good as an image without it.
    const container = await fixture.engine.docker.createContainer({
      Image: without,
      Cmd: ['sh', '-c', 'rm -f /usr/bin/perl*'],
      HostConfig: { NetworkMode: 'none' },
    })
    await container.start()
    await container.wait()
    await container.commit({ repo: 'longhaul-test/no-perl', tag: String(process.pid), changes: ['CMD ["true"]'] })
    await container.remove()
    const open = host.open(fixture.openInput({ placement: 2, image: without, allowedHosts: ALLOWED }), never)
    await assert.rejects(
      open,
      (error: Error) => codeOf(error) === 'Sandbox.ImageUnsuitable' && /needs: perl/.test(error.message),
    )
  } finally {
    for (const { Id } of await fixture.engine.docker.listContainers({
      all: true,
      filters: { label: [`longhaul.run=${fixture.run}`] },
    }))
      await fixture.engine.docker.getContainer(Id).remove({ force: true })
    await fixture.engine.docker.getImage(without).remove({ force: true })
  }
})
