import { readFile } from 'node:fs/promises'
import type { Duplex } from 'node:stream'

import { LonghaulError } from '../../../../contracts/errors.ts'
import type { NetworkUse } from '../../../../contracts/sandbox.types.ts'
import { createEgressProxy, type EgressProxy, type EgressProxyOptions } from '../../../egress/egress-proxy.ts'
import { toSandboxError } from '../../engine/engine-errors.ts'
import { RUNNER_FOLDER } from '../runner-wire.ts'
import { createRelayStream, type RelayStream } from './relay-stream.ts'

/** Where programs in a sandbox find their proxy. Fixed, for it stands in the environment that a rebuilt sandbox must have too. */
export const PROXY_PORT = 47_128

const READY_MS = 20_000
/** Said by the shell that starts the relay. */
const NO_PERL = 'needs perl'
const START = `command -v perl >/dev/null || { echo ${NO_PERL} >&2; exit 127; }; exec perl -e "$2" "$1"`

export interface RelayPoolOptions extends Pick<EgressProxyOptions, 'log' | 'resolve' | 'dial' | 'limits'> {
  /** Starts a program of the runner's in a sandbox, as `openRunnerExec` does. */
  exec(name: string, command: string[]): Promise<Duplex>
}

export interface RelayRequest {
  /** Container name. */
  name: string
  allowedHosts: readonly string[]
}

/** The networks of this process's sandboxes: one relay in each, one proxy here for each. */
export interface RelayPool {
  /** Opens what is not open: a new sandbox, one of an earlier worker, one whose relay the agent has ended.
   *  @throws LonghaulError `Sandbox.ImageUnsuitable`, `Sandbox.EngineUnavailable` */
  ensure(request: RelayRequest): Promise<void>
  /** Undefined where nothing happened. */
  takeUse(name: string): NetworkUse | undefined
  disconnect(name: string): void
  dispose(): void
}

interface Network {
  /** Of the sandbox: it outlives a relay that the agent has ended, with what it has counted and what is left of its limits. */
  proxy: EgressProxy
  /** Null before the first relay is ready. */
  stream: RelayStream | null
}

export function createRelayPool({ exec, ...options }: RelayPoolOptions): RelayPool {
  const networks = new Map<string, Network>()
  const opening = new Map<string, Promise<void>>()

  const networkOf = ({ name, allowedHosts }: RelayRequest): Network => {
    const known = networks.get(name)
    if (known !== undefined) return known
    const log: EgressProxyOptions['log'] = (message, facts) => options.log(message, { sandbox: name, ...facts })
    const made = { proxy: createEgressProxy({ ...options, log, allowed: allowedHosts }), stream: null }
    networks.set(name, made)
    return made
  }

  const open = async (request: RelayRequest): Promise<void> => {
    const { name } = request
    const script = await readFile(new URL('./relay.pl', import.meta.url), 'utf8')
    const relay = script.replaceAll(/^ *#.*\n/gm, '')
    // By the runner, as commands run: what the image calls a shell or perl may be the agent's by now.
    const words = [`${RUNNER_FOLDER}/runner`, 'enter', '/bin/sh', '-c', START, 'relay', String(PROXY_PORT), relay]
    const socket = await exec(name, words)
    const network = networkOf(request)
    const stream = createRelayStream({ socket, onConnection: (connection) => network.proxy.accept(connection) })
    const timer = setTimeout(() => stream.close(), READY_MS)
    try {
      await stream.ready
    } catch (error) {
      // A sandbox that never had a network is given up.
      if (network.stream === null) disconnect(name)
      throw notOpened(name, error)
    } finally {
      clearTimeout(timer)
    }
    // The sandbox was closed meanwhile.
    if (networks.get(name) !== network) return stream.close()
    network.stream = stream
  }

  const disconnect = (name: string): void => {
    const network = networks.get(name)
    networks.delete(name)
    network?.stream?.close()
    network?.proxy.close()
  }

  return {
    disconnect,
    async ensure(request) {
      const { name } = request
      const stream = networks.get(name)?.stream
      if (stream?.isOpen === true) return
      stream?.close()
      const mine = opening.get(name) ?? open(request).finally(() => opening.delete(name))
      opening.set(name, mine)
      await mine
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
