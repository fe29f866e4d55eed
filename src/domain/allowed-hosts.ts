/** Ports of an entry that names none. */
const USUAL_PORTS = [80, 443]

/** Letters, digits, hyphens and underscores between dots (RFC 1123), with at most 63 in a label. Resolvers disagree about everything
 *  else: one ends a name at a zero byte, another reads `%` as the scope of an address. */
const NAME = /^(?!.{254})[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})+$/

export interface HostRequest {
  /** As the client wrote it. */
  host: string
  port: number
}

export function isAllowedHost({ host, port }: HostRequest, allowed: readonly string[]): boolean {
  // A fully qualified name may end with the root's dot.
  const name = host.toLowerCase().replace(/\.$/, '')
  if (!NAME.test(name)) return false
  return allowed.some((entry) => {
    const [pattern = '', entryPort] = entry.split(':')
    const isPort = entryPort === undefined ? USUAL_PORTS.includes(port) : port === Number(entryPort)
    if (!pattern.startsWith('*.')) return isPort && name === pattern
    // No name begins with a dot, so one that ends with the pattern has a label before it.
    return isPort && name.endsWith(pattern.slice(1))
  })
}
