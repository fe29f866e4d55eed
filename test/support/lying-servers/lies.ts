/**
 * A table of lying servers: the embedded one, healthy and wrong in one way each, behind the checks of publishing. Honest servers, in fp32 and
 * in bf16, stand in the same table: a check that refuses them would stop a run that is right.
 */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { verifyCanaryRows } from '../../../src/adapters/policy-server/canary.ts'
import type { Canary } from '../../../src/adapters/policy-server/canary-rules.ts'
import { createPolicyClient } from '../../../src/adapters/policy-server/client.ts'
import { selfCheck } from '../../../src/adapters/policy-server/self-check.ts'
import { isLonghaulError } from '../../../src/contracts/errors.ts'
import type { PolicyClient, PolicyRef } from '../../../src/contracts/policy.types.ts'
import { type RunningServer, runPython, startPolicyServer } from '../python.ts'

/** Medians that rounding explains, as publishing has them for the dtype of an export. */
const TOLERANCE = { float32: 1e-3, bfloat16: 2e-2 } as const

export interface Server {
  name: string
  /** Of the embedded server (`longhaul_trainer/serve/faults.py`). */
  faults: readonly string[]
  /** What the policy was exported as. */
  dtype: keyof typeof TOLERANCE
  /** Null: it is honest, and must pass. */
  caughtBy: 'canary' | 'self-check' | null
}

export const SERVERS: readonly Server[] = [
  { name: 'honest, fp32', faults: [], dtype: 'float32', caughtBy: null },
  { name: 'honest, bf16', faults: ['bfloat16'], dtype: 'bfloat16', caughtBy: null },
  { name: 'stale weights under the new name', faults: ['stale'], dtype: 'float32', caughtBy: 'canary' },
  { name: 'half of the new weights', faults: ['half-load'], dtype: 'float32', caughtBy: 'canary' },
  { name: 'the old output head', faults: ['old-head'], dtype: 'float32', caughtBy: 'canary' },
  { name: 'bf16 where fp32 was exported', faults: ['bfloat16'], dtype: 'float32', caughtBy: 'canary' },
  { name: 'stale weights, served in bf16', faults: ['stale', 'bfloat16'], dtype: 'bfloat16', caughtBy: 'canary' },
  { name: 'top-k 20', faults: ['top-k-20'], dtype: 'float32', caughtBy: 'self-check' },
  { name: 'top-k 20, reported from before it', faults: ['top-k-20-raw'], dtype: 'float32', caughtBy: 'self-check' },
  { name: 'top-p 0.8', faults: ['top-p-80'], dtype: 'float32', caughtBy: 'self-check' },
  { name: 'top-p 0.8, served in bf16', faults: ['top-p-80', 'bfloat16'], dtype: 'bfloat16', caughtBy: 'self-check' },
  { name: 'the temperature ignored', faults: ['ignore-temperature'], dtype: 'float32', caughtBy: 'self-check' },
  { name: 'raw log-probabilities', faults: ['raw-logprobs'], dtype: 'float32', caughtBy: 'self-check' },
]

export interface LyingServers {
  /** Checks one server with one pair of policies. @returns what refused it, or null */
  check(server: Server, seed: number): Promise<'canary' | 'self-check' | null>
  stop(): Promise<void>
}

/** One process, and a pair of policies for each seed below `pairs`. `root`: a folder that is there. */
export async function startLyingServers({
  root,
  pairs,
  signal,
}: {
  root: string
  pairs: number
  signal: AbortSignal
}): Promise<LyingServers> {
  const written = await writePairs(root, pairs)
  const running: RunningServer = await startPolicyServer({ state: join(root, 'state'), maxVersions: 2, faults: true })
  const client = createPolicyClient({ kind: 'embedded', url: running.url, timeouts: { giveUpAfterMs: 10_000 } })
  const fault = async (faults: readonly string[]): Promise<void> => {
    const answer = await fetch(`${running.url}/v1/faults`, { method: 'POST', body: JSON.stringify({ faults }) })
    if (!answer.ok) throw new Error(`Expected faults ${faults.join()} to be known, got ${await answer.text()}`)
  }
  let loads = 0
  const load = async (policy: PolicyRef): Promise<PolicyRef> => {
    // Never a known version: each check reads weights anew.
    const fresh = { ...policy, version: `v${String(++loads).padStart(6, '0')}-${policy.manifestSha256.slice(0, 8)}` }
    await client.load({ policy: fresh, holder: 'lies', leaseMs: 600_000 }, signal)
    return fresh
  }
  return {
    stop: () => running.stop(),
    async check({ faults, dtype }, seed) {
      const [older, newer] = written[seed] ?? []
      if (older === undefined || newer === undefined) throw new Error(`Expected a seed below ${pairs}, got ${seed}`)
      try {
        await client.release({ holder: 'lies' })
        await fault([])
        // What an honest fp32 server says is what the trainer wrote down.
        const wrote = [await load(older), await load(newer)] as const
        const canary = await makeCanary(client, wrote, signal)
        await client.release({ holder: 'lies' })
        await load(older)
        await fault(faults)
        const { version } = await load(newer)
        const asked = { client, policy: version, tolerance: TOLERANCE[dtype], signal }
        try {
          await verifyCanaryRows({ ...asked, canary })
        } catch (error) {
          if (isLonghaulError(error) && error.code === 'Model.CanaryMismatch') return 'canary'
          throw error
        }
        try {
          await selfCheck(asked)
        } catch (error) {
          if (isLonghaulError(error) && error.code === 'Model.Biased') return 'self-check'
          throw error
        }
        return null
      } finally {
        await fault([])
      }
    },
  }
}

/** Neighbours as an optimizer step makes them: log-probabilities differ by some hundredths. */
const STEP = 0.02

/** Of each seed, by one interpreter: it takes longer to start than to write. */
async function writePairs(root: string, pairs: number): Promise<[older: PolicyRef, newer: PolicyRef][]> {
  const told = await runPython(
    'import sys, pathlib, json; from policy_pair import write_pair; root, n, step = sys.argv[1:];' +
      'print(json.dumps([write_pair(pathlib.Path(root) / f"pair-{s}", seed=s, step=float(step)) for s in range(int(n))]))',
    root,
    String(pairs),
    String(STEP),
  )
  return (JSON.parse(told) as [string, string][]).map((hashes, seed) => {
    const [older, newer] = hashes.map((manifestSha256, globalStep): PolicyRef => {
      const uri = pathToFileURL(join(root, `pair-${seed}`, globalStep === 0 ? 'older' : 'newer')).href
      return { version: '', uri, manifestSha256, globalStep, checkpointUri: null, checkpointSha256: null }
    })
    return [older, newer] as [PolicyRef, PolicyRef]
  })
}

/** Of three rows, where both policies differ most, as an export chooses. */
async function makeCanary(
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
