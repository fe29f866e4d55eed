/** Faults of a bucket: absent, overloaded, slow, with lost or truncated answers, and with outdated listings. */
import type { Fault as Spoiled, SeenS3Request } from '../artifacts/faulty-proxy.ts'
import type { ChaosStack } from './chaos-stack.ts'
import type { Fault } from './faults.ts'
import { PHASES } from './phases.ts'

/** Shorter than the retries of a store operation. */
const SPOILED_MS = 6_000
const SLOW_MS = 1_500

export const BUCKET_FAULTS: readonly Fault[] = [
  fault('store-503', () => ({ kind: 'answer', status: 503, code: 'SlowDown' })),
  fault('store-slow', () => ({ kind: 'slow', ms: SLOW_MS })),
  // Every other request: a server that loses all answers counts as absent.
  fault('store-lost-answer', everyOther({ kind: 'lost-answer' })),
  fault(
    'store-half-body',
    everyOther({ kind: 'half-body' }, ({ method }) => method === 'GET'),
  ),
  fault('store-stale-listing', ({ method, query }) =>
    method === 'GET' && query.has('list-type') ? { kind: 'stale' } : null,
  ),
  fault(
    'store-gone',
    () => ({ kind: 'gone' }),
    ({ outageMs }) => outageMs,
  ),
]

function fault(
  name: string,
  rule: (request: SeenS3Request) => Spoiled | null,
  msOf: (stack: ChaosStack) => number = () => SPOILED_MS,
): Fault {
  return {
    name,
    phases: PHASES,
    expects: 'identical',
    strike: async ({ stack }) => {
      let spoiled = 0
      const over = stack.bucket().spoil(msOf(stack), rule)
      return { over: over.then((count) => (spoiled = count)), seen: () => spoiled > 0 }
    },
  }
}

function everyOther(
  spoiled: Spoiled,
  isMeant: (request: SeenS3Request) => boolean = () => true,
): (request: SeenS3Request) => Spoiled | null {
  let count = 0
  return (request) => (isMeant(request) && count++ % 2 === 0 ? spoiled : null)
}
