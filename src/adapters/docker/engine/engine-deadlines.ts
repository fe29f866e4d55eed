import type Docker from 'dockerode'

/** What `dial` of the client takes, as far as it is read here; its types leave it open. */
export interface DialOptions {
  path: string
  hijack?: boolean
  abortSignal?: AbortSignal
}

type DialCallback = (error: unknown, answer?: unknown) => void

/** Measured on loaded engines: create and start may take tens of seconds, everything else less. */
const ANSWER_MS = 60_000
/** An engine under load answers a ping within a second or two; one that takes longer counts as silent. */
const PING_MS = 8_000
/** Archives and commits of a repository move hundreds of megabytes. */
const TRANSFER_MS = 5 * 60_000
/** Images of real tasks are gigabytes from a registry. */
const IMAGE_MS = 30 * 60_000

/**
 * Bounds every request to the engine: its client has no deadlines of its own, and a frozen engine still accepts connections.
 * The callers bound three kinds themselves: `wait` lasts as long as the container, an upgraded exec stream as long as the
 * sandbox, and events come until the subscriber closes the stream.
 */
export function boundEngineRequests(
  docker: Docker,
  limitOf: (request: DialOptions) => number | null = limitOfRequest,
): void {
  const modem = docker.modem as { dial(options: DialOptions, callback: DialCallback): void }
  const dial = modem.dial.bind(modem)
  modem.dial = (options, callback) => {
    const limitMs = limitOf(options)
    if (limitMs === null) return dial(options, callback)
    const { path } = options
    const deadline = AbortSignal.timeout(limitMs)
    const abortSignal = options.abortSignal === undefined ? deadline : AbortSignal.any([options.abortSignal, deadline])
    return dial({ ...options, abortSignal }, (error, answer) => {
      const isLate = Boolean(error) && deadline.aborted
      callback(isLate ? tooLate(path, limitMs, error) : error, answer)
    })
  }
}

/** With the code that Node gives to a connection that ran out of time: a silent engine counts as unreachable. */
function tooLate(path: string, limitMs: number, cause: unknown): Error {
  return Object.assign(new Error(`no answer to ${path} within ${limitMs / 1000} s`, { cause }), { code: 'ETIMEDOUT' })
}

/** In milliseconds; null where the caller has a bound of its own. */
export function limitOfRequest({ path, hijack }: DialOptions): number | null {
  if (hijack === true || /^\/(containers\/[^/]+\/wait|events)/.test(path)) return null
  if (path.startsWith('/_ping')) return PING_MS
  if (/^\/(images\/(create|load|get)|build)/.test(path)) return IMAGE_MS
  if (/^\/(commit|containers\/[^/]+\/(archive|export))/.test(path)) return TRANSFER_MS
  return ANSWER_MS
}
