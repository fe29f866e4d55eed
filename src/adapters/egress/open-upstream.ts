import { lookup, Resolver } from 'node:dns/promises'
import { connect, isIP, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

import { type HostRequest, isAllowedHost } from '../../domain/allowed-hosts.ts'
import { isPublicAddress, type Nat64Prefix, nat64PrefixesOf } from './public-address.ts'

/** The recipe does not allow the host, or its name resolves to the host's own networks. */
export class EgressRefused extends Error {}
/** The host is allowed but was not reached. */
export class EgressFailed extends Error {}

export interface UpstreamOptions extends DialOptions {
  allowed: readonly string[]
}

type Resolve = (host: string) => Promise<string[]>

export interface DialOptions {
  /** @default the host’s name servers; if any address may be reached, the host’s resolver */
  resolve?: Resolve
  /** Only called with an address that was checked. @default TCP */
  dial?: (at: { address: string; port: number }) => Socket
  /** Aborts the look-up and the connection. */
  signal?: AbortSignal
}

const RESOLVE_MS = 10_000
const NO_ANSWER = 'the name server did not answer'
const DIAL_MS = 10_000
/** How long an answer about NAT64 holds, for a machine may move to another network. */
const NAT64_MS = 600_000
/** After a question about it that was not answered. */
const NAT64_AGAIN_MS = 60_000
/** A name with many dead addresses would delay the agent’s turn. */
const MAX_ADDRESSES = 3

/** Connects to an allowed host. A disallowed name is not resolved, because a DNS query leaves the host too. The connection uses
 *  exactly the address that was checked, so a name that changes its answer between queries gains nothing. */
export async function openUpstream(target: HostRequest, options: UpstreamOptions): Promise<Socket> {
  if (isIP(target.host.replace(/^\[|\]$/g, '')) !== 0) throw new EgressRefused('an address instead of a name')
  if (!isAllowedHost(target, options.allowed)) throw new EgressRefused('not on the allow list')
  return dialPublic(target, options)
}

/** Connects to a public address of a host, and to other addresses only if the operator allows it.
 *  @throws EgressRefused, EgressFailed */
export async function dialPublic(
  { host, port }: HostRequest,
  options: DialOptions & { mayReachAny?: boolean },
): Promise<Socket> {
  const { mayReachAny, signal, dial = (at) => connect({ host: at.address, port: at.port }) } = options
  const { resolve = mayReachAny === true ? resolveOnHost : resolvePublic } = options
  const addresses = isIP(host) === 0 ? await withinTime(resolve(host), RESOLVE_MS, signal) : [host]
  // Checked here without NAT64, and below with it: a closed address is refused without a question about NAT64.
  const mayBeTranslated = addresses.some((address) => isIP(address) === 6 && isPublicAddress(address))
  const asksFirst = mayReachAny !== true && mayBeTranslated
  const nat64 = asksFirst ? await withinTime(nat64Of(options.resolve ?? resolveV6), RESOLVE_MS, signal) : []
  const isOpen = (address: string): boolean => mayReachAny === true || isPublicAddress(address, { nat64 })
  const open = addresses.filter(isOpen).slice(0, MAX_ADDRESSES)
  if (open.length === 0) throw new EgressRefused('the name resolves to no public address')
  for (const [index, address] of open.entries()) {
    try {
      return await dialled(dial({ address, port }), signal)
    } catch (error) {
      signal?.throwIfAborted()
      if (index === open.length - 1) throw error
    }
  }
  throw new EgressFailed('no address')
}

/** A host that the operator names may be in the host's own hosts file, or below its search domain. */
async function resolveOnHost(host: string): Promise<string[]> {
  try {
    return (await lookup(host, { all: true })).map(({ address }) => address)
  } catch (error) {
    throw notKnown(error)
  }
}

/**
 * Asks the host's name servers for exactly this name. `getaddrinfo` appends the host's search domains, below which a name belongs to
 * another owner. While a name server is silent, it also occupies one of the two look-ups that a process runs at once.
 */
async function resolvePublic(host: string): Promise<string[]> {
  const resolver = new Resolver({ timeout: RESOLVE_MS / 4, tries: 2 })
  const timer = setTimeout(() => resolver.cancel(), RESOLVE_MS)
  const found = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
  clearTimeout(timer)
  const [v4 = [], v6 = []] = found.map((answer) => (answer.status === 'fulfilled' ? answer.value : []))
  // Alternates the families, because the host may have addresses of only one family.
  const addresses = Array.from({ length: Math.max(v4.length, v6.length) }, (_, index) => [v4[index], v6[index]])
  const known = addresses.flat().filter((address) => address !== undefined)
  const [failure] = found.filter((answer) => answer.status === 'rejected')
  if (known.length === 0 && failure !== undefined) throw notKnown(failure.reason)
  return known
}

/** An answer without an address says that there is none; anything else is no answer. */
async function resolveV6(host: string): Promise<string[]> {
  const resolver = new Resolver({ timeout: RESOLVE_MS / 4, tries: 2 })
  const timer = setTimeout(() => resolver.cancel(), RESOLVE_MS)
  try {
    return await resolver.resolve6(host)
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (code === 'ENODATA' || code === 'ENOTFOUND') return []
    throw error
  } finally {
    clearTimeout(timer)
  }
}

interface Nat64Answer {
  prefixes: Promise<Nat64Prefix[]>
  untilMs: number
}

/** By the name servers that were asked. */
const nat64Answers = new WeakMap<Resolve, Nat64Answer>()

/** The prefixes below which this network translates to IPv4, as its name servers show them (RFC 7050). While they do not answer, what
 *  they said last holds. */
function nat64Of(resolve: Resolve): Promise<Nat64Prefix[]> {
  const known = nat64Answers.get(resolve)
  if (known !== undefined && performance.now() < known.untilMs) return known.prefixes
  const answer: Nat64Answer = { prefixes: Promise.resolve([]), untilMs: performance.now() + NAT64_AGAIN_MS }
  answer.prefixes = withinTime(resolve('ipv4only.arpa'), RESOLVE_MS).then(
    (addresses) => {
      answer.untilMs = performance.now() + NAT64_MS
      return nat64PrefixesOf(addresses)
    },
    () => known?.prefixes ?? [],
  )
  nat64Answers.set(resolve, answer)
  return answer.prefixes
}

function notKnown(error: unknown): EgressFailed {
  const { code = '' } = error as NodeJS.ErrnoException
  const isSilent = code === 'ETIMEOUT' || code === 'ECANCELLED'
  return new EgressFailed(isSilent ? NO_ANSWER : `the name is not known: ${code}`, { cause: error })
}

function dialled(socket: Socket, signal?: AbortSignal): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>()
  const end = (): void => void socket.destroy(new Error('ended by the caller'))
  const timer = setTimeout(() => socket.destroy(new Error('no connection in time')), DIAL_MS)
  const settle = (): void => {
    clearTimeout(timer)
    signal?.removeEventListener('abort', end)
  }
  const onError = (error: Error): void => {
    settle()
    reject(new EgressFailed(error.message, { cause: error }))
  }
  // Never removed, because an error before the owner adds its own listener would end the worker.
  socket.on('error', onError)
  socket.once('connect', () => {
    settle()
    resolve(socket)
  })
  if (signal?.aborted === true) end()
  else signal?.addEventListener('abort', end)
  return promise
}

async function withinTime<T>(lookUp: Promise<T>, ms: number, signal?: AbortSignal): Promise<T> {
  const done = new AbortController()
  const ending = signal === undefined ? done.signal : AbortSignal.any([done.signal, signal])
  const late = sleep(ms, undefined, { signal: ending, ref: false }).then(
    () => Promise.reject(new EgressFailed(NO_ANSWER)),
    () => Promise.reject((signal?.reason as Error | undefined) ?? new EgressFailed(NO_ANSWER)),
  )
  late.catch(() => undefined)
  lookUp.catch(() => undefined)
  try {
    return await Promise.race([lookUp, late])
  } finally {
    done.abort()
  }
}
