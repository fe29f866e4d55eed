/** Inserts the phases between a worker's activities and its adapters. */
import { setTimeout as sleep } from 'node:timers/promises'
import { wrapStore } from '../../../src/adapters/artifacts/store-rules.ts'
import { Context } from '@temporalio/activity'
import type { ArtifactStore } from '../../../src/contracts/artifacts.types.ts'
import type { PolicyClient } from '../../../src/contracts/policy.types.ts'
import type { SandboxHost } from '../../../src/contracts/sandbox.types.ts'
import type { Interposers } from '../../../src/workers/connect.ts'
import { isLonghaulError } from '../../../src/contracts/errors.ts'
import { openAuditLog } from './audit-log.ts'
import { shiftClock } from './clock.ts'
import { askForWord, type Phase, type Verdict, type Visit, visit } from './phases.ts'

/** After this time a request of the runner or the engine is certainly in progress. */
const INSIDE_MS = 250
/** A worker that follows a training job makes no visit; a fault there lasts four seconds. */
const ASK_EVERY_MS = 500

export function createInterposers({
  controlUrl,
  process,
  auditFolder,
}: {
  controlUrl: string
  process: string
  auditFolder: string
}): Interposers {
  const note = openAuditLog({ folder: auditFolder, process })
  let storeDelayMs = 0

  const obey = (verdict: Verdict): void => {
    if (verdict.clockShiftMs !== undefined) {
      shiftClock(verdict.clockShiftMs)
      note({ kind: 'clock-shifted', ms: verdict.clockShiftMs })
    }
    if (verdict.storeDelayMs !== undefined) storeDelayMs = verdict.storeDelayMs
  }
  setInterval(() => void askForWord(controlUrl, process).then(obey), ASK_EVERY_MS).unref()
  const reach = async (
    phase: Phase,
    { episode = null, container = null, key = null }: Partial<Omit<Visit, 'phase' | 'process'>>,
  ): Promise<void> => obey(await visit(controlUrl, { phase, process, episode, container, key }))

  /** Reaches the phase while the work is in progress. */
  const amid = async <T>(
    work: Promise<T>,
    phase: Phase,
    at: Partial<Omit<Visit, 'phase' | 'process'>>,
    afterMs = INSIDE_MS,
  ): Promise<T> => {
    work.catch(() => undefined)
    const isOver = await Promise.race([
      work.then(
        () => true,
        () => true,
      ),
      sleep(afterMs, false),
    ])
    if (!isOver || afterMs === 0) await reach(phase, at)
    return work
  }

  const slowDown = async (key: string): Promise<void> => {
    if (storeDelayMs === 0) return
    note({ kind: 'store-slow', key })
    await sleep(storeDelayMs)
  }
  const aroundWrite = async <T>(key: string, write: () => Promise<T>): Promise<T> => {
    const at = phasesOf(key)
    if (at.before !== null) await reach(at.before, { episode: episodeOf(key), key })
    await slowDown(key)
    const written = await write().catch((error: unknown) => {
      note({ kind: 'store-failed', key, code: codeOf(error) })
      throw error
    })
    if (at.after !== null) await reach(at.after, { episode: episodeOf(key), key })
    return written
  }

  const store = (inner: ArtifactStore): ArtifactStore =>
    wrapStore(inner, async ({ doing, key }, work) => {
      if (doing === 'writing') return aroundWrite(key, work)
      if (isFirstOfPart()) await reach('parting', { key })
      await slowDown(key)
      return work()
    })

  const openNoted = async (inner: SandboxHost, ...[input, signal]: Parameters<SandboxHost['open']>) => {
    const handle = await inner.open(input, signal)
    const { episode, placement } = input
    note({ kind: 'opened', episode, placement, container: handle.containerId })
    return handle
  }
  const runNoted = async (inner: SandboxHost, ...[handle, request, signal]: Parameters<SandboxHost['runTurn']>) => {
    const { turn, token, fence } = request
    const which = { container: handle.containerId, turn, token }
    note({ kind: 'turn-begins', ...which, fence })
    try {
      const result = await inner.runTurn(handle, request, signal)
      note({ kind: 'turn-ends', ...which, code: null })
      return result
    } catch (error) {
      note({ kind: 'turn-ends', ...which, code: codeOf(error) })
      throw error
    }
  }
  const sandbox = (inner: SandboxHost): SandboxHost => ({
    ...inner,
    open: (input, signal) => amid(openNoted(inner, input, signal), 'placing', { episode: input.episode }, 0),
    runTurn: (handle, request, signal) =>
      amid(runNoted(inner, handle, request, signal), 'executing', { container: handle.name }),
    capture: (handle, request, signal) =>
      amid(inner.capture(handle, request, signal), 'capturing', { container: handle.name }, 0),
    async close(handle) {
      await reach('closing', { container: handle.name })
      return inner.close(handle)
    },
    grade: (input, signal) =>
      input.role === 'gate'
        ? inner.grade(input, signal)
        : amid(inner.grade(input, signal), 'grading', { episode: input.episode }),
    audit: (input, signal) =>
      input.role === 'gate'
        ? inner.audit(input, signal)
        : amid(inner.audit(input, signal), 'grading', { episode: input.episode }),
  })

  const policy = (inner: PolicyClient): PolicyClient => ({
    ...inner,
    load: (request, signal) => amid(inner.load(request, signal), 'publishing', {}, 0),
  })
  return { store, sandbox, policy }
}

/** A part reads its tasks from the plan before it plays one, and only once, because plans of chaos runs have one page. */
function isFirstOfPart(): boolean {
  try {
    const { activityType, workflowExecution } = Context.current().info
    return activityType === 'readPlanPage' && workflowExecution?.workflowId.includes('/part/') === true
  } catch {
    // The store is also read outside of activities.
    return false
  }
}

function codeOf(error: unknown): string {
  return isLonghaulError(error) ? error.code : 'Unexpected'
}

function phasesOf(key: string): { before: Phase | null; after: Phase | null } {
  if (key.endsWith('.action.json')) return { before: 'sampled', after: 'recorded' }
  if (key.endsWith('.observation.json')) return { before: 'executed', after: 'observed' }
  if (key.endsWith('/verdict.json')) return { before: 'graded', after: null }
  if (/^runs\/.*\/(groups|batch)\.json$/.test(key)) return { before: 'batching', after: null }
  return { before: null, after: null }
}

/** `episodes/<run>/<stage>/<iteration>/<task>/<index>/…` */
function episodeOf(key: string): string | null {
  const parts = key.split('/')
  return parts[0] === 'episodes' ? parts.slice(1, 6).join('/') : null
}
