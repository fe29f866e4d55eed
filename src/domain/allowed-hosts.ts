/** Where an entry names no port. */
const USUAL_PORTS = [80, 443]

export interface HostRequest {
  /** As the client wrote it. */
  host: string
  port: number
}

export function isAllowedHost({ host, port }: HostRequest, allowed: readonly string[]): boolean {
  // A name may end in the dot of the root.
  const name = host.toLowerCase().replace(/\.$/, '')
  return allowed.some((entry) => {
    const [pattern = '', entryPort] = entry.split(':')
    const isPort = entryPort === undefined ? USUAL_PORTS.includes(port) : port === Number(entryPort)
    if (!pattern.startsWith('*.')) return isPort && name === pattern
    return isPort && name.endsWith(pattern.slice(1)) && name.length > pattern.length - 1
  })
}
