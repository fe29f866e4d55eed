/** Runs inside `own-internet.ts`: a name server whose answers change, a public server, one of the host's own, and the proxy between
 *  them. */
import { lookup } from 'node:dns/promises'
import { createServer, request } from 'node:http'
import { createServer as listen, type Socket } from 'node:net'
import { createEgressProxy } from '../../../src/adapters/egress/egress-proxy.ts'
import { NEIGHBOUR_ADDRESS, OWN_ADDRESS, PUBLIC_ADDRESS, SEARCH_DOMAIN, startNameServer } from './own-internet.ts'

const PROXY_PORT = 8888
const INSIDE = '127.0.0.1'

export interface Asked {
  /** Status and body of each request, by its subject. */
  answers: Record<string, string>
  /** Look-ups of a name's address that reached the name server. */
  lookUps: Record<string, number>
  /** Connections that reached the host's own servers. */
  inside: number
  /** Look-ups of the proxy that the name server left open when another look-up of the process was answered. */
  openThen: number
}

/** More than the process has threads for look-ups. */
const SILENT = 12

if (import.meta.main) {
  let inside = 0
  const hello = (name: string) => createServer((_request, response) => response.end(name))
  const servers = [PUBLIC_ADDRESS, INSIDE, OWN_ADDRESS, NEIGHBOUR_ADDRESS].map((address) => {
    const server = hello(address === PUBLIC_ADDRESS ? 'public' : 'inside').listen(80, address)
    if (address !== PUBLIC_ADDRESS) server.on('connection', () => (inside += 1))
    return server
  })
  const names = await startNameServer((name, nth) => {
    // Public for the first look-up, inside for the next.
    if (/^rebound-\d\.example\.org$/.test(name)) return [nth === 1 ? PUBLIC_ADDRESS : INSIDE]
    if (name === 'inside.example.org') return [INSIDE]
    if (name === 'mixed.example.org') return [INSIDE, PUBLIC_ADDRESS]
    if (name === 'own.example.org') return [OWN_ADDRESS, NEIGHBOUR_ADDRESS]
    // 127.0.0.1 in IPv4, below this network's own prefix, which looks like any other public address.
    if (name === 'translated.example.org') return ['2a01:db8:0:0:0:0:7f00:1']
    if (name === 'ipv4only.arpa') return ['192.0.0.170', '2a01:db8:0:0:0:0:c000:aa']
    if (name === 'quick.example.org') return [PUBLIC_ADDRESS]
    // Everything below the search domain is public and foreign.
    if (name.endsWith(`.${SEARCH_DOMAIN}`)) return [PUBLIC_ADDRESS]
    return name.startsWith('silent-') ? undefined : null
  })
  const proxy = createEgressProxy({ allowed: ['*.example.org'], log: () => undefined })
  const front = listen((socket: Socket) => proxy.accept(socket)).listen(PROXY_PORT, INSIDE)

  const asked: Asked = { answers: {}, lookUps: {}, inside: 0, openThen: 0 }
  for (const name of ['rebound-1', 'inside', 'mixed', 'own', 'unknown', 'translated']) {
    asked.answers[`GET ${name}`] = await get(`http://${name}.example.org/`)
  }
  for (const name of ['rebound-2', 'inside', 'mixed', 'own']) {
    asked.answers[`CONNECT ${name}`] = await tunnel(`${name}.example.org:80`)
  }
  asked.lookUps = Object.fromEntries(names.asked)
  let open = SILENT
  for (let index = 0; index < SILENT; index += 1) {
    void tunnel(`silent-${index}.example.org:443`).then(
      () => (open -= 1),
      () => undefined,
    )
  }
  // The worker looks up its store in the same way, once the proxy has started.
  while (![...names.asked.keys()].some((name) => name.startsWith('silent-'))) {
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  await lookup('quick.example.org.')
  asked.openThen = open
  asked.inside = inside
  console.log(JSON.stringify(asked))
  proxy.close()
  names.close()
  front.close()
  for (const server of servers) server.close()
}

function get(path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const asking = request({ host: INSIDE, port: PROXY_PORT, path }, (response) => {
      let body = ''
      response.on('data', (chunk) => (body += String(chunk)))
      response.on('end', () => resolve(`${response.statusCode} ${body.trim()}`))
    })
    asking.on('error', reject).end()
  })
}

function tunnel(path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const asking = request({ host: INSIDE, port: PROXY_PORT, method: 'CONNECT', path })
    asking.on('connect', (response, socket) => {
      if (response.statusCode !== 200) {
        socket.destroy()
        resolve(String(response.statusCode))
        return
      }
      let body = ''
      socket.on('data', (chunk) => (body += String(chunk)))
      socket.on('end', () => resolve(`200 ${body.split('\r\n').at(-1)}`))
      socket.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    })
    asking.on('error', reject).end()
  })
}
