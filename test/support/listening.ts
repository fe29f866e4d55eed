import { readdir, readFile, readlink } from 'node:fs/promises'

/** Addresses on which a process and its descendants listen for TCP connections: `127.0.0.1:7233`, `[::]:80`. Linux. */
export async function listeningAddresses(pid: number): Promise<string[]> {
  const family = await withDescendants(pid)
  const inodes = new Set((await Promise.all(family.map(socketInodes))).flat())
  const tables = await Promise.all(
    // The process's own network namespace; a container's ports are not the host's.
    ['tcp', 'tcp6'].map((name) => readFile(`/proc/${pid}/net/${name}`, 'utf8').catch(() => '')),
  )
  return tables.flatMap((table) =>
    table
      .trim()
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter(([, , , state, , , , , , inode]) => state === LISTEN && inodes.has(inode ?? ''))
      .map(([, local]) => spell(local ?? '')),
  )
}

export function isLoopbackAddress(address: string): boolean {
  return /^127\.[\d.]+:\d+$|^\[0:0:0:0:0:0:0:1\]:\d+$|^\[0:0:0:0:0:ffff:7f[0-9a-f]{2}:[0-9a-f]+\]:\d+$/.test(address)
}

const LISTEN = '0A'

async function withDescendants(pid: number): Promise<number[]> {
  const parents = new Map<number, number>()
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '')
    parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]))
  }
  const family = [pid]
  for (const member of family) {
    for (const [child, parent] of parents) if (parent === member) family.push(child)
  }
  return family
}

async function socketInodes(pid: number): Promise<string[]> {
  const descriptors = await readdir(`/proc/${pid}/fd`).catch(() => [])
  const targets = await Promise.all(descriptors.map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => '')))
  return targets.flatMap((target) => /^socket:\[(\d+)\]$/.exec(target)?.[1] ?? [])
}

/** The kernel prints words of four bytes in the machine's byte order, little-endian on every supported machine. */
function spell(local: string): string {
  const [address = '', port = ''] = local.split(':')
  const words = address.match(/.{8}/g) ?? []
  const bytes = words.flatMap((word) => (word.match(/../g) ?? []).toReversed())
  const at = Number.parseInt(port, 16)
  if (words.length === 1) return `${bytes.map((byte) => Number.parseInt(byte, 16)).join('.')}:${at}`
  const groups = bytes.flatMap((byte, i) =>
    i % 2 === 0 ? [Number.parseInt(byte + bytes[i + 1], 16).toString(16)] : [],
  )
  return `[${groups.join(':')}]:${at}`
}
