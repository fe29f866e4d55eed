import { BlockList, isIP } from 'node:net'
import { networkInterfaces } from 'node:os'

/** IPv4 ranges that are not public (IANA special-purpose registry), including multicast and reserved ones. */
const CLOSED_V4 = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
] as const

/** Ranges within 2000::/3, the only global unicast range, that are not public: documentation, and ranges that embed an unchecked
 *  IPv4 address. */
const CLOSED_V6 = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
] as const

const closed = new BlockList()
for (const [network, prefix] of CLOSED_V4) closed.addSubnet(network, prefix, 'ipv4')
for (const [network, prefix] of CLOSED_V6) closed.addSubnet(network, prefix, 'ipv6')
const globalV6 = new BlockList()
globalV6.addSubnet('2000::', 3, 'ipv6')

interface AddressOptions {
  /** @default those of this machine */
  interfaces?: Interfaces
  /** Prefixes below which this network translates to IPv4. @default none beyond the well-known one, which is closed */
  nat64?: readonly Nat64Prefix[]
}

/** Whether a connection there leaves the host's own networks: no loopback, private, link-local or other special address, none of this
 *  machine, and none of a network that it is on. Those may be public too, with IPv6 most are, and services there trust their neighbours.
 *  What NAT64 translates must lead to such an IPv4 address as well. */
export function isPublicAddress(
  address: string,
  { interfaces = networkInterfaces(), nat64 = [] }: AddressOptions = {},
): boolean {
  const family = isIP(address)
  if (family === 0) return false
  const type = family === 4 ? 'ipv4' : 'ipv6'
  if (type === 'ipv6' && !globalV6.check(address, type)) return false
  if (closed.check(address, type) || networksOf(interfaces).check(address, type)) return false
  if (type === 'ipv4' || nat64.length === 0) return true
  const bytes = bytesOfV6(address)
  if (bytes === null) return false
  return nat64
    .filter((prefix) => prefix.bytes.every((byte, at) => bytes[at] === byte))
    .every(({ length }) => isPublicAddress(embeddedV4(bytes, length), { interfaces }))
}

/** Of a network's own translation to IPv4 (RFC 6052). */
export interface Nat64Prefix {
  length: Nat64Length
  bytes: readonly number[]
}

type Nat64Length = keyof typeof EMBEDDED_AT

/** Where an IPv4 address is in one below a prefix of so many bits; the ninth byte is left out. */
const EMBEDDED_AT = {
  32: [4, 5, 6, 7],
  40: [5, 6, 7, 9],
  48: [6, 7, 9, 10],
  56: [7, 9, 10, 11],
  64: [9, 10, 11, 12],
  96: [12, 13, 14, 15],
} as const
const NAT64_LENGTHS = [32, 40, 48, 56, 64, 96] as const satisfies readonly Nat64Length[]
/** What `ipv4only.arpa` has in IPv4, and nothing else has. */
const ONLY_V4: readonly string[] = ['192.0.0.170', '192.0.0.171']

/** The prefixes that IPv6 addresses of `ipv4only.arpa` show (RFC 7050). Where an address can be read in several ways, all of them count. */
export function nat64PrefixesOf(addresses: readonly string[]): Nat64Prefix[] {
  return addresses.flatMap((address) => {
    const bytes = bytesOfV6(address)
    if (bytes === null) return []
    return NAT64_LENGTHS.filter((length) => ONLY_V4.includes(embeddedV4(bytes, length))).map((length) => ({
      length,
      bytes: bytes.slice(0, length / 8),
    }))
  })
}

function embeddedV4(bytes: readonly number[], length: Nat64Length): string {
  return EMBEDDED_AT[length].map((at) => bytes[at]).join('.')
}

function bytesOfV6(address: string): number[] | null {
  if (isIP(address) !== 6) return null
  // Spelt in one way: lower case, without IPv4 at its end.
  const canonical = URL.parse(`http://[${address.split('%')[0]}]`)?.hostname.slice(1, -1)
  if (canonical === undefined) return null
  const [head = '', tail] = canonical.split('::')
  const groups = (text = ''): string[] => (text === '' ? [] : text.split(':'))
  const left = groups(head)
  const right = groups(tail)
  const all = [...left, ...Array<string>(8 - left.length - right.length).fill('0'), ...right]
  return all.flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 0xff])
}

type Interfaces = ReturnType<typeof networkInterfaces>

function networksOf(interfaces: Interfaces): BlockList {
  const networks = new BlockList()
  for (const { address, family, cidr } of Object.values(interfaces).flatMap((addresses = []) => addresses)) {
    const type = family === 'IPv4' ? 'ipv4' : 'ipv6'
    networks.addSubnet(address, Number(cidr?.split('/')[1] ?? (type === 'ipv4' ? 32 : 128)), type)
  }
  return networks
}
