import type Docker from 'dockerode'

/** The options of the client's `dial` that are read here; the client does not type them. */
export interface DialOptions {
  path: string
  method?: string
  hijack?: boolean
  abortSignal?: AbortSignal
}

type DialCallback = (error: unknown, answer?: unknown) => void

/** Measured on loaded engines: create and start may take tens of seconds, all other requests less. */
const ANSWER_MS = 60_000
/** An engine under load answers a ping within two seconds. An engine that takes longer than this counts as silent. */
const PING_MS = 8_000
/** Archives and commits of a repository transfer hundreds of megabytes. A removal may delete a million files. */
const TRANSFER_MS = 5 * 60_000
/** Pulled images of real tasks are gigabytes in size. */
const IMAGE_MS = 30 * 60_000

/**
 * Bounds every request to the engine, because its client has no deadlines and a frozen engine still accepts connections. Callers bound
 * three kinds themselves: `wait` lasts as long as the container, an upgraded exec stream as long as the sandbox, and events come until
 * the subscriber closes the stream.
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

/** Uses Node's code for a connection that timed out, so that a silent engine counts as unreachable. */
function tooLate(path: string, limitMs: number, cause: unknown): Error {
  return Object.assign(new Error(`no answer to ${path} within ${limitMs / 1000} s`, { cause }), { code: 'ETIMEDOUT' })
}

/** Returns milliseconds, or null if the caller sets its own bound. */
export function limitOfRequest({ path, method, hijack }: DialOptions): number | null {
  if (hijack === true || /^\/(containers\/[^/]+\/wait|events)/.test(path)) return null
  if (path.startsWith('/_ping')) return PING_MS
  if (/^\/(images\/(create|load|get)|build)/.test(path)) return IMAGE_MS
  if (method === 'DELETE' || /^\/(commit|containers\/[^/]+\/(archive|export))/.test(path)) return TRANSFER_MS
  return ANSWER_MS
}
