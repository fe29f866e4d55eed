/**
 * A table of lying servers: the embedded server, healthy or wrong in one way each, against the checks of publishing. The table also
 * has honest servers, in fp32 and in bf16: a check that refuses them would stop a correct run.
 */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { verifyCanaryRows, verifyWindow } from '../../../src/adapters/policy-server/canary.ts'
import type { Canary } from '../../../src/adapters/policy-server/canary-rules.ts'
import { createPolicyClient } from '../../../src/adapters/policy-server/client.ts'
import { selfCheck } from '../../../src/adapters/policy-server/self-check.ts'
import { isLonghaulError } from '../../../src/contracts/errors.ts'
import type { PolicyClient, PolicyRef, PolicyVersion } from '../../../src/contracts/policy.types.ts'
import { type RunningServer, runPython, startPolicyServer } from '../python.ts'

/** Medians that rounding explains, as publishing permits them for the dtype of an export. */
export const TOLERANCE = { float32: 1e-3, bfloat16: 2e-2 } as const

/** The checks of publishing that refuse a server, in their order. */
export type Check = 'canary' | 'window' | 'self-check'

export interface Server {
  name: string
  /** Faults of the embedded server (`longhaul_trainer/serve/faults.py`). */
  faults: readonly string[]
  /** Dtype of the policy's export. */
  dtype: keyof typeof TOLERANCE
  /** A base policy has no canary, because no training job exported it. */
  isBase: boolean
  /** Null: the server is honest and must pass. */
  caughtBy: Check | null
  /** The lie may be below publishing's tolerance for bf16, so it is counted but is no failure. */
  mayPass: boolean
}

interface Lie {
  name: string
  faults: readonly string[]
  caughtBy: Check
  isBase?: boolean
  mayPassInBf16?: boolean
}

/** Each lie is played by a server in fp32, and by one that serves a bf16 export in bf16, whose noise may hide the lie. */
const LIES: readonly Lie[] = [
  { name: 'stale weights under the new name', faults: ['stale'], caughtBy: 'canary' },
  { name: 'half of the new weights', faults: ['half-load'], caughtBy: 'canary' },
  { name: 'the new weights but for a layer', faults: ['stale-layer'], caughtBy: 'canary', mayPassInBf16: true },
  { name: 'the old output head', faults: ['old-head'], caughtBy: 'canary', mayPassInBf16: true },
  { name: 'no rope', faults: ['ignore-rope'], caughtBy: 'canary' },
  { name: 'no rope, base policy', faults: ['ignore-rope'], caughtBy: 'window', isBase: true },
  { name: 'half of the rope’s factor', faults: ['other-rope'], caughtBy: 'canary' },
  { name: 'half of the rope’s factor, base policy', faults: ['other-rope'], caughtBy: 'window', isBase: true },
  { name: 'top-k 20', faults: ['top-k-20'], caughtBy: 'self-check' },
  { name: 'top-k 20, raw log-probabilities', faults: ['top-k-20-raw'], caughtBy: 'self-check' },
  { name: 'top-k 20, hidden', faults: ['top-k-20-hidden'], caughtBy: 'self-check' },
  { name: 'top-p 0.8', faults: ['top-p-80'], caughtBy: 'self-check' },
  { name: 'top-p 0.8, hidden', faults: ['top-p-80-hidden'], caughtBy: 'self-check' },
  { name: 'min-p 0.05', faults: ['min-p-5'], caughtBy: 'self-check' },
  { name: 'a repetition penalty of 1.05', faults: ['repetition-105'], caughtBy: 'self-check', mayPassInBf16: true },
  { name: 'the temperature ignored', faults: ['ignore-temperature'], caughtBy: 'self-check' },
  { name: 'the temperature ignored, hidden', faults: ['hidden-temperature'], caughtBy: 'self-check' },
  { name: 'raw log-probabilities', faults: ['raw-logprobs'], caughtBy: 'self-check' },
]

const HONEST: readonly Server[] = [
  { name: 'honest', faults: [], dtype: 'float32', isBase: false, caughtBy: null, mayPass: false },
  { name: 'honest, base policy', faults: [], dtype: 'float32', isBase: true, caughtBy: null, mayPass: false },
  { name: 'honest', faults: ['bfloat16'], dtype: 'bfloat16', isBase: false, caughtBy: null, mayPass: false },
  {
    name: 'honest, base policy',
    faults: ['bfloat16'],
    dtype: 'bfloat16',
    isBase: true,
    caughtBy: null,
    mayPass: false,
  },
  {
    name: 'fp32 where bf16 was exported',
    faults: [],
    dtype: 'bfloat16',
    isBase: false,
    caughtBy: null,
    mayPass: false,
  },
]

export const SERVERS: readonly Server[] = [
  ...HONEST,
  {
    name: 'bf16 where fp32 was exported',
    faults: ['bfloat16'],
    dtype: 'float32',
    isBase: false,
    caughtBy: 'canary',
    mayPass: false,
  },
  ...LIES.flatMap(({ isBase = false, mayPassInBf16 = false, ...lie }): Server[] => [
    { ...lie, isBase, dtype: 'float32', mayPass: false },
    { ...lie, isBase, dtype: 'bfloat16', faults: [...lie.faults, 'bfloat16'], mayPass: mayPassInBf16 },
  ]),
]

export interface LyingServers {
  /** Checks one server with one pair of policies. @returns the check that refused it, or null */
  check(server: Server, seed: number): Promise<Check | null>
  stop(): Promise<void>
}

/** One server process, and a pair of policies for each seed below `pairs`. `root`: an existing folder. */
export async function startLyingServers({
  root,
  pairs,
  signal,
}: {
  root: string
  pairs: number
  signal: AbortSignal
}): Promise<LyingServers> {
  // Even seeds have tied embeddings, odd ones a separate output head.
  const families = Array.from({ length: pairs }, (_, seed) => (seed % 2 === 0 ? 'qwen3' : 'qwen2'))
  const written = await writePairs({ root, families })
  const running: RunningServer = await startPolicyServer({ state: join(root, 'state'), maxVersions: 2, faults: true })
  const client = createPolicyClient({ kind: 'embedded', url: running.url, timeouts: { giveUpAfterMs: 10_000 } })
  const fault = async (faults: readonly string[]): Promise<void> => {
    const answer = await fetch(`${running.url}/v1/faults`, { method: 'POST', body: JSON.stringify({ faults }) })
    if (!answer.ok) throw new Error(`Expected faults ${faults.join()} to be known, got ${await answer.text()}`)
  }
  const canaries = new Map<number, Canary>()
  let loads = 0
  const load = async (policy: PolicyRef): Promise<PolicyRef> => {
    // Always a new version, so that each check reads weights again.
    const fresh = { ...policy, version: `v${String(++loads).padStart(6, '0')}-${policy.manifestSha256.slice(0, 8)}` }
    await client.load({ policy: fresh, holder: 'lies', leaseMs: 600_000 }, signal)
    return fresh
  }
  return {
    stop: () => running.stop(),
    async check({ faults, dtype, isBase }, seed) {
      const [older, newer] = written[seed] ?? []
      if (older === undefined || newer === undefined) throw new Error(`Expected a seed below ${pairs}, got ${seed}`)
      try {
        await client.release({ holder: 'lies' })
        await fault([])
        // An honest fp32 server gives the log-probabilities that the trainer stores.
        if (!isBase && !canaries.has(seed)) {
          canaries.set(seed, await makeCanary(client, [await load(older), await load(newer)], signal))
        }
        const canary = isBase ? null : (canaries.get(seed) ?? null)
        await client.release({ holder: 'lies' })
        await load(older)
        await fault(faults)
        const { version } = await load(newer)
        const asked = { client, policy: version, tolerance: TOLERANCE[dtype], signal }
        return await refusedBy({ ...asked, canary, window: windowOf({ root, seed }) })
      } finally {
        await fault([])
      }
    },
  }
}

/** The window of a pair's newer policy. */
export function windowOf({ root, seed }: { root: string; seed: number }): string {
  return join(root, `pair-${seed}`, 'window.safetensors')
}

export interface AskedServer {
  client: PolicyClient
  policy: PolicyVersion
  tolerance: number
  /** Null for a base policy, because no training job exported it. */
  canary: Canary | null
  /** `window.safetensors` of a policy with a rope. */
  window: string
  signal: AbortSignal
}

/** The first check of publishing, in its order, that refuses a server. Null: all of them pass. */
export async function refusedBy({ canary, window, ...asked }: AskedServer): Promise<Check | null> {
  const checks: [Check, code: string, () => Promise<unknown>][] = [
    ['canary', 'Model.CanaryMismatch', async () => canary && verifyCanaryRows({ ...asked, canary })],
    ['window', 'Model.CanaryMismatch', () => verifyWindow({ ...asked, path: window })],
    ['self-check', 'Model.Biased', () => selfCheck(asked)],
  ]
  for (const [name, code, check] of checks) {
    try {
      await check()
    } catch (error) {
      if (isLonghaulError(error) && error.code === code) return name
      throw error
    }
  }
  return null
}

/** Like policies before and after an optimizer step: log-probabilities differ by some hundredths. */
const STEP = 0.02

/** Writes one pair for each family, seeded by its position, in one interpreter, which takes longer to start than to write. @param
 *  hidden @default 64 */
export async function writePairs({
  root,
  families,
  hidden = 64,
}: {
  root: string
  families: readonly ('qwen2' | 'qwen3')[]
  hidden?: number
}): Promise<[older: PolicyRef, newer: PolicyRef][]> {
  const told = await runPython(
    'import sys, pathlib, json; from policy_pair import write_pair; root, hidden, step, *families = sys.argv[1:];' +
      'print(json.dumps([write_pair(pathlib.Path(root) / f"pair-{s}", seed=s, step=float(step), family=f, hidden=int(hidden)) for s, f in enumerate(families)]))',
    root,
    String(hidden),
    String(STEP),
    ...families,
  )
  return (JSON.parse(told) as [string, string][]).map((hashes, seed) => {
    const [older, newer] = hashes.map((manifestSha256, globalStep): PolicyRef => {
      const uri = pathToFileURL(join(root, `pair-${seed}`, globalStep === 0 ? 'older' : 'newer')).href
      return { version: '', uri, manifestSha256, globalStep, checkpointUri: null, checkpointSha256: null }
    })
    return [older, newer] as [PolicyRef, PolicyRef]
  })
}

/** A canary of the three rows where the policies differ most, like an export's. */
export async function makeCanary(
  client: PolicyClient,
  [older, newer]: readonly [PolicyRef, PolicyRef],
  signal: AbortSignal,
): Promise<Canary> {
  const rows: Canary['rows'] = []
  for (let row = 0; row < 3; row++) {
    const ids = Array.from({ length: 200 }, (_, at) => (row * 61 + at * 37 + 11) % 250)
    const old = await client.score({ policy: older.version, ids }, signal)
    const next = await client.score({ policy: newer.version, ids }, signal)
    const positions = next
      .map((newLogprob, at) => ({ index: at + 1, oldLogprob: old[at] ?? Number.NaN, newLogprob }))
      .toSorted((a, b) => Math.abs(b.newLogprob - b.oldLogprob) - Math.abs(a.newLogprob - a.oldLogprob))
    rows.push({ ids, positions: positions.slice(0, 100) })
  }
  return { rows }
}
