import { readFile } from 'node:fs/promises'
import type { Duplex } from 'node:stream'

import { LonghaulError } from '../../../../contracts/errors.ts'
import type { NetworkUse } from '../../../../contracts/sandbox.types.ts'
import { createEgressProxy, type EgressProxy, type EgressProxyOptions } from '../../../egress/egress-proxy.ts'
import { toSandboxError } from '../../engine/engine-errors.ts'
import { RUNNER_FOLDER } from '../runner-wire.ts'
import { createRelayStream, type RelayStream } from './relay-stream.ts'

/** The port on which programs in a sandbox reach their proxy. It is fixed because it is part of the environment, which must be
 *  identical in a rebuilt sandbox. */
export const PROXY_PORT = 47_128

/** Of one relay, and of all waits of a sandbox’s turns for its relays together: an agent may have replaced perl. */
const READY_MS = 20_000
/** Printed by the shell that starts the relay if the image has no perl. */
const NO_PERL = 'needs perl'
const START = `command -v perl >/dev/null || { echo ${NO_PERL} >&2; exit 127; }; exec perl -e "$2" "$1"`

export interface RelayPoolOptions extends Pick<EgressProxyOptions, 'log' | 'resolve' | 'dial' | 'limits'> {
  /** Starts a program as the runner's user in a sandbox, as `openRunnerExec` does. */
  exec(name: string, command: string[]): Promise<Duplex>
  /** How long a relay may take until it is ready, and how long turns of a sandbox wait for relays in all. @default 20 s */
  readyMs?: number
}

export interface RelayRequest {
  /** Container name. */
  name: string
  allowedHosts: readonly string[]
}

/** The networks of this process's sandboxes. Each has one relay in the sandbox and one proxy in this process. */
export interface RelayPool {
  /** Opens the network of a new sandbox, which is none without it.
   *  @throws LonghaulError `Sandbox.ImageUnsuitable`, `Sandbox.EngineUnavailable` */
  open(request: RelayRequest): Promise<void>
  /** Opens what is not open before a turn: the network of an earlier worker's sandbox, or one whose relay the agent has ended. Turns of
   *  a sandbox wait for that for a limited time in all; later ones begin at once, while a relay is tried beside them. So a relay that
   *  the agent has broken costs one wait, and one that a busy machine has delayed still opens the network.
   *  @throws LonghaulError as `open`, where a wait has come to nothing */
  ensure(request: RelayRequest): Promise<void>
  /** Returns undefined if the network was not used. */
  takeUse(name: string): NetworkUse | undefined
  disconnect(name: string): void
  dispose(): void
}

interface Network {
  /** Belongs to the sandbox. It outlives a relay that the agent has killed, and keeps its counters and remaining limits. */
  proxy: EgressProxy
  /** Null until the first relay is ready. */
  stream: RelayStream | null
  /** What turns may still wait. */
  leftMs: number
}

export function createRelayPool({ exec, readyMs = READY_MS, ...options }: RelayPoolOptions): RelayPool {
  const networks = new Map<string, Network>()
  const opening = new Map<string, Promise<void>>()

  const networkOf = ({ name, allowedHosts }: RelayRequest): Network => {
    const known = networks.get(name)
    if (known !== undefined) return known
    const log: EgressProxyOptions['log'] = (message, facts) => options.log(message, { sandbox: name, ...facts })
    const proxy = createEgressProxy({ ...options, log, allowed: allowedHosts })
    const made = { proxy, stream: null, leftMs: readyMs }
    networks.set(name, made)
    return made
  }

  const start = async (request: RelayRequest): Promise<void> => {
    const { name } = request
    const script = await readFile(new URL('./relay.pl', import.meta.url), 'utf8')
    const relay = script.replaceAll(/^ *#.*\n/gm, '')
    // Started by the runner, as commands are, because the agent may have replaced the image's shell or perl.
    const words = [`${RUNNER_FOLDER}/runner`, 'enter', '/bin/sh', '-c', START, 'relay', String(PROXY_PORT), relay]
    const network = networkOf(request)
    const socket = await exec(name, words)
    const stream = createRelayStream({ socket, onConnection: (connection) => network.proxy.accept(connection) })
    const timer = setTimeout(() => stream.close(`the relay was not ready within ${readyMs / 1000} s`), readyMs)
    try {
      await stream.ready
    } catch (error) {
      throw notOpened(name, error)
    } finally {
      clearTimeout(timer)
    }
    // The sandbox was closed in the meantime.
    if (networks.get(name) !== network) return stream.close()
    network.stream = stream
  }

  const disconnect = (name: string): void => {
    const network = networks.get(name)
    networks.delete(name)
    network?.stream?.close()
    network?.proxy.close()
  }

  /** One relay at a time. */
  const opened = async (request: RelayRequest): Promise<void> => {
    const { name } = request
    const stream = networks.get(name)?.stream
    if (stream?.isOpen === true) return
    stream?.close()
    const mine = opening.get(name) ?? start(request).finally(() => opening.delete(name))
    opening.set(name, mine)
    await mine
  }

  return {
    disconnect,
    async open(request) {
      try {
        await opened(request)
      } catch (error) {
        disconnect(request.name)
        throw error
      }
    },
    async ensure(request) {
      const network = networkOf(request)
      const { leftMs } = network
      const opens = opened(request)
      if (leftMs <= 0) {
        opens.catch(() => undefined)
        return
      }
      const began = performance.now()
      try {
        await settledWithin(opens, { name: request.name, leftMs })
      } finally {
        // A timer may be a millisecond early, and the rest of a wait that came to nothing is none.
        network.leftMs -= Math.ceil(performance.now() - began) + 1
      }
    },
    takeUse(name) {
      const use = networks.get(name)?.proxy.takeUse()
      return use === undefined || (use.opened === 0 && use.refused === 0) ? undefined : use
    },
    dispose() {
      for (const name of networks.keys()) disconnect(name)
    },
  }
}

async function settledWithin(opens: Promise<void>, { name, leftMs }: { name: string; leftMs: number }): Promise<void> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(notOpened(name, new Error('the relay was not ready'))), leftMs)
  try {
    await Promise.race([opens, late])
  } finally {
    clearTimeout(timer)
    // It may still open the network. If it fails, the turn has begun already.
    opens.catch(() => undefined)
  }
}

function notOpened(name: string, error: unknown): LonghaulError {
  const reason = error instanceof Error ? error.message : String(error)
  if (reason.includes(NO_PERL)) {
    return new LonghaulError({
      code: 'Sandbox.ImageUnsuitable',
      message:
        'The image lacks what a network needs: perl (perl-base of Debian is enough). Add it, or set sandbox.network: none',
      details: { name },
    })
  }
  return toSandboxError(error, { doing: 'opening the network of a sandbox', details: { name } })
}
