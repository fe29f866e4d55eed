/**
 * A private internet for a test: network and mount namespaces in which loopback has a public address and the system's resolver asks
 * the test's name server. The product's own look-up and connections run there unchanged.
 */
import { execFileSync } from 'node:child_process'
import { createSocket, type RemoteInfo } from 'node:dgram'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand } from '../../../src/platform/run-command.ts'

/** In there, a route alone delivers it to loopback; no interface has it. Elsewhere it would be a foreign address. */
export const PUBLIC_ADDRESS = '93.184.215.14'
/** Public too, but in a network of the machine in there. */
export const OWN_ADDRESS = '93.184.216.14'
export const NEIGHBOUR_ADDRESS = '93.184.216.15'
/** The resolver's search domain, as in a cluster: names with few dots are tried below it first. */
export const SEARCH_DOMAIN = 'corp.example.net'

const UNSHARE = [
  ...(process.getuid?.() === 0 ? [] : ['--user', '--map-root-user']),
  '--net',
  '--mount',
  '--propagation',
  'private',
]
const RESOLVER = {
  '/etc/resolv.conf': `nameserver 127.0.0.1\nsearch ${SEARCH_DOMAIN}\noptions ndots:5\n`,
  '/etc/nsswitch.conf': 'hosts: files dns\n',
}

export const withoutOwnInternet: string | false = hasNamespaces()
  ? false
  : 'needs unshare, ip and leave to make namespaces'

/** Runs a script of this repository there and parses the line of JSON that it prints. */
export async function inOwnInternet<T>(script: string): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'own-internet-'))
  try {
    const mounts: string[] = []
    for (const [index, [path, text]] of Object.entries(RESOLVER).entries()) {
      const file = join(folder, String(index))
      await writeFile(file, text)
      if (existsSync(path)) mounts.push(`mount --bind ${file} ${path}`)
    }
    const steps = [
      'ip link set lo up',
      `ip route add local ${PUBLIC_ADDRESS} dev lo`,
      `ip address add ${OWN_ADDRESS}/24 dev lo`,
      ...mounts,
      'exec "$@"',
    ]
    const { exitCode, stdout, tail } = await runCommand({
      command: 'unshare',
      args: [...UNSHARE, 'sh', '-ec', steps.join('\n'), 'sh', process.execPath, script],
      timeoutMs: 60_000,
    })
    if (exitCode !== 0) throw new Error(`Expected ${script} to end well, got ${exitCode}:\n${tail}`)
    return JSON.parse(stdout) as T
  } finally {
    await rm(folder, { recursive: true })
  }
}

const [A, AAAA, IN] = [1, 28, 1]

/** A name server on port 53 of loopback. `answer`: the addresses for the nth look-up of a name, from 1, with all groups of IPv6
 *  addresses; null: unknown; undefined: no answer. */
export async function startNameServer(
  answer: (name: string, nth: number) => string[] | null | undefined,
): Promise<{ asked: Map<string, number>; close(): void }> {
  const asked = new Map<string, number>()
  const socket = createSocket('udp4')
  socket.on('message', (query: Buffer, from: RemoteInfo) => {
    const { name, type, end } = questionOf(query)
    const isAddress = type === A
    if (isAddress) asked.set(name, (asked.get(name) ?? 0) + 1)
    const addresses = answer(name, asked.get(name) ?? 1)
    if (addresses === undefined) return
    const isOfFamily = (address: string): boolean => address.includes(':') === (type === AAAA)
    const records = isAddress || type === AAAA ? (addresses ?? []).filter(isOfFamily).map(recordOf) : []
    const head = Buffer.alloc(12)
    query.copy(head, 0, 0, 2)
    // An authoritative answer; 3: there is no such name.
    head.writeUInt16BE(0x8580 | (addresses === null ? 3 : 0), 2)
    head.writeUInt16BE(1, 4)
    head.writeUInt16BE(records.length, 6)
    socket.send(Buffer.concat([head, query.subarray(12, end), ...records]), from.port, from.address)
  })
  await new Promise<void>((resolve) => socket.bind(53, '127.0.0.1', resolve))
  return { asked, close: () => socket.close() }
}

function questionOf(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = []
  let at = 12
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 }
}

function recordOf(address: string): Buffer {
  const isV4 = !address.includes(':')
  const groups = address.split(':').map((group) => Number.parseInt(group, 16))
  const bytes = isV4 ? address.split('.').map(Number) : groups.flatMap((group) => [group >> 8, group & 0xff])
  const record = Buffer.alloc(12 + bytes.length)
  // A pointer to the name in the question, at byte 12.
  record.writeUInt16BE(0xc00c, 0)
  record.writeUInt16BE(isV4 ? A : AAAA, 2)
  record.writeUInt16BE(IN, 4)
  record.writeUInt16BE(bytes.length, 10)
  Buffer.from(bytes).copy(record, 12)
  return record
}

function hasNamespaces(): boolean {
  try {
    execFileSync('unshare', [...UNSHARE, 'ip', 'link', 'set', 'lo', 'up'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
