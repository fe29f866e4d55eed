import { BlockList, isIP } from 'node:net'
import { networkInterfaces } from 'node:os'

/** IPv4 that is not of the public internet (IANA special-purpose registry), multicast and reserved ones with it. */
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

/** Within 2000::/3, the only global unicast: documentation, and ranges that embed an unchecked IPv4 address. */
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

/** Whether a connection there leaves the host's own networks: no loopback, private, link-local or other special address, none of this
 *  machine, and none of a network that it is on. Those may be public too, with IPv6 most are, and services there trust their neighbours. */
export function isPublicAddress(address: string, interfaces: Interfaces = networkInterfaces()): boolean {
  const family = isIP(address)
  if (family === 0) return false
  const type = family === 4 ? 'ipv4' : 'ipv6'
  if (type === 'ipv6' && !globalV6.check(address, type)) return false
  return !closed.check(address, type) && !networksOf(interfaces).check(address, type)
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
