import { Connection } from '@temporalio/client'

import type { StackFacts } from './environment.ts'
import { accepts } from './ports.ts'
import type { Readiness } from './services.ts'
import { hasPoller } from './temporal-namespace.ts'

export interface ReadinessInput {
  ready: Readiness
  facts: StackFacts
  pid: number
}

/** One question, answered within seconds; never throws. */
export async function isReady({ ready, facts, pid }: ReadinessInput): Promise<boolean> {
  switch (ready.kind) {
    case 'tcp':
      return accepts(ready.host, ready.port)
    case 'http':
      return fetch(ready.url, { signal: AbortSignal.timeout(3_000) }).then(
        (response) => response.ok,
        () => false,
      )
    case 'poller':
      return polls(facts, ready.queue, pid)
  }
}

async function polls({ temporalAddress, namespace }: StackFacts, queue: string, pid: number): Promise<boolean> {
  let connection: Connection | undefined
  try {
    connection = await Connection.connect({ address: temporalAddress, connectTimeout: 3_000 })
    return await hasPoller(connection, { namespace, queue, pid })
  } catch {
    return false
  } finally {
    await connection?.close()
  }
}
