import { setTimeout as sleep } from 'node:timers/promises'
import type { Container, ContainerCreateOptions, ContainerInspectInfo } from 'dockerode'
import { LonghaulError } from '../../../contracts/errors.ts'
import { type Deviation, describeDeviations, deviationsOf } from './container-check.ts'
import { noteDiskLimitRefused } from './container-spec.ts'
import { isStatus, ignoreGone } from '../engine/engine-errors.ts'
import type { Engine, EngineInfo } from '../engine/engine.ts'
import { LABELS } from './labels.ts'
import { flattenWrittenFolder } from './written-folder.ts'

interface CreateContainerInput {
  engine: Engine
  spec: ContainerCreateOptions
  /** Further preparation of a new container before its start. It runs while the container is inspected. */
  equip?: () => Promise<void>
  /** Whether a container with these labels may be adopted; otherwise it is removed first. @default any with the same identity */
  mayAdopt?: (labels: Record<string, string>) => boolean
}

interface CreatedContainer {
  container: Container
  /** Present if an earlier attempt has already created the container. */
  existing: ContainerInspectInfo | null
}

/** Creates a container, or adopts the one that an earlier attempt created under the same deterministic name. In both cases the
 *  engine is asked for the actual settings, and a container that deviates from the specification is removed at once.
 *  @throws LonghaulError `Sandbox.ImageMissing`; `Sandbox.RuntimeMissing`; `Sandbox.JournalConflict` if the name belongs
 *  to something else; `Sandbox.Unsafe` if the new container deviates, `Sandbox.Lost` if the adopted one does */
export async function createOrAdopt({
  engine,
  spec,
  equip,
  mayAdopt,
}: CreateContainerInput): Promise<CreatedContainer> {
  const name = spec.name ?? ''
  for (let attempt = 1; ; attempt += 1) {
    const created = await create(engine, spec)
    if (created !== null) {
      const { container } = created
      const [found] = await Promise.all([container.inspect(), equip?.()])
      const deviations = deviationsOf({ ...created, found, facts: engine.facts })
      if (deviations.length === 0) return { container, existing: null }
      await removeContainer({ engine, name: container.id })
      throw unsafe(name, deviations)
    }
    const existing = await inspectExisting(engine, name)
    // It was removed between the two requests, or another attempt has reserved the name and is still creating it.
    if (existing === null) {
      if (attempt >= MAX_ATTEMPTS) throw neverFree(name)
      await sleep(RETRY_MS)
      continue
    }
    requireSameOwner(name, spec.Labels ?? {}, existing.Config.Labels)
    if (mayAdopt?.(existing.Config.Labels) === false) {
      await removeContainer({ engine, name: existing.Id })
      continue
    }
    await requireSafe(engine, asAdopted(spec, existing), existing)
    return { container: engine.docker.getContainer(existing.Id), existing }
  }
}

const MAX_ATTEMPTS = 50
const RETRY_MS = 100

interface Created {
  container: Container
  /** The specification that was finally used: if the engine cannot limit what is written, the request is repeated without that limit. */
  spec: ContainerCreateOptions
}

/** Returns null if the name is taken. */
async function create(engine: Engine, spec: ContainerCreateOptions): Promise<Created | null> {
  try {
    return { container: await engine.docker.createContainer(spec), spec }
  } catch (error) {
    if (isStatus(error, 404)) throw imageMissing(spec.Image ?? '', error)
    if (isStatus(error, 409)) return null
    const { StorageOpt: disk, ...host } = spec.HostConfig ?? {}
    if (host.Runtime !== undefined && isAboutRuntime(error)) throw runtimeMissing(host.Runtime, engine, error)
    if (disk === undefined || !noteDiskLimitRefused(engine, error)) throw error
    return create(engine, { ...spec, HostConfig: host })
  }
}

async function inspectExisting(engine: Engine, name: string): Promise<ContainerInspectInfo | null> {
  return engine.docker
    .getContainer(name)
    .inspect()
    .catch((missing: unknown) => {
      if (isStatus(missing, 404)) return null
      throw missing
    })
}

const IDENTITY_LABELS = [LABELS.project, LABELS.run, LABELS.episode, LABELS.role, LABELS.fence, LABELS.image]

function requireSameOwner(name: string, wanted: Record<string, string>, found: Record<string, string>): void {
  const differing = IDENTITY_LABELS.find((label) => wanted[label] !== found[label])
  if (differing === undefined) return
  throw new LonghaulError({
    code: 'Sandbox.JournalConflict',
    message: 'A container of this name belongs to something else',
    details: { name, label: differing, wanted: wanted[differing] ?? null, found: found[differing] ?? null },
  })
}

/** Takes over the settings in which an earlier attempt may differ: creation time, host process, processors of the pool. */
function asAdopted(spec: ContainerCreateOptions, existing: ContainerInspectInfo): ContainerCreateOptions {
  const wanted = spec.HostConfig?.CpusetCpus ?? ''
  const found = existing.Config.Labels[LABELS.cpus] ?? ''
  const hasAsMany = found.split(',').length === wanted.split(',').length
  const identity = Object.fromEntries(IDENTITY_LABELS.map((label) => [label, spec.Labels?.[label] ?? '']))
  const host = { ...spec.HostConfig, ...(hasAsMany ? { CpusetCpus: found } : {}) }
  if ((existing.HostConfig.StorageOpt ?? null) === null) delete host.StorageOpt
  return { ...spec, Labels: identity, HostConfig: host }
}

/** Removes an unsafe adopted container although it holds an episode's work. The episode is placed again and replays its turns. */
async function requireSafe(engine: Engine, spec: ContainerCreateOptions, found: ContainerInspectInfo): Promise<void> {
  const deviations = deviationsOf({ spec, found, facts: engine.facts })
  if (deviations.length === 0) return
  await removeContainer({ engine, name: found.Id })
  throw new LonghaulError({
    code: 'Sandbox.Lost',
    message: 'An earlier attempt left a container that deviates from its specification; it was removed',
    details: { name: spec.name ?? '', deviations: describeDeviations(deviations) },
  })
}

function unsafe(name: string, deviations: Deviation[]): LonghaulError {
  return new LonghaulError({
    code: 'Sandbox.Unsafe',
    message:
      'The engine created a container that deviates from its specification; it was removed before anything ran in it',
    details: { name, deviations: describeDeviations(deviations) },
  })
}

/**
 * Called before the first container. Checks that the engine lists the runtime. Newer engines also accept the name or path of a shim,
 * which no list contains.
 * @throws LonghaulError `Sandbox.RuntimeMissing`
 */
export async function requireRuntime(engine: Pick<Engine, 'docker' | 'host'>, runtime: string): Promise<void> {
  if (/[./]/.test(runtime)) return
  const { Runtimes: known } = (await engine.docker.info()) as EngineInfo
  if (known && !Object.hasOwn(known, runtime)) throw runtimeMissing(runtime, engine)
}

/** `Unknown runtime specified x` (20.10), `unknown or invalid runtime name: x` (newer). */
function isAboutRuntime(error: unknown): boolean {
  return error instanceof Error && /unknown (or invalid )?runtime/i.test(error.message)
}

function runtimeMissing(runtime: string, engine: Pick<Engine, 'host'>, cause?: unknown): LonghaulError {
  return new LonghaulError({
    code: 'Sandbox.RuntimeMissing',
    message:
      'The engine does not know the runtime that sandboxes should use: install it there, or choose another (sandbox.runtime of the recipe, LONGHAUL_SANDBOX_RUNTIME of the sandbox worker)',
    details: { runtime, host: engine.host },
    cause,
  })
}

function neverFree(name: string): LonghaulError {
  return new LonghaulError({
    code: 'Sandbox.EngineUnavailable',
    message: 'The engine reports that the container’s name is taken, but lists no such container',
    details: { name },
  })
}

function imageMissing(image: string, cause: unknown): LonghaulError {
  return new LonghaulError({
    code: 'Sandbox.ImageMissing',
    message: 'The engine does not have the image',
    details: { image },
    cause,
  })
}

interface RemoveContainerInput {
  engine: Engine
  name: string
}

/** Milliseconds before each retry of a removal. */
const REMOVAL_PAUSES = [100, 400, 1600]

/**
 * Removes a container, running or not, with its volumes. A container that is gone or being removed counts as removed. The engine fails
 * while it still writes its own files for a container full of processes, so the request is retried.
 */
export async function removeContainer({ engine, name }: RemoveContainerInput): Promise<void> {
  const remove = (): Promise<void> =>
    engine.docker.getContainer(name).remove({ force: true, v: true }).catch(ignoreGone)
  for (const pauseMs of REMOVAL_PAUSES) {
    try {
      await flattenWrittenFolder(engine, name)
      await remove()
      return
    } catch (error) {
      if (!isStatus(error, 500)) throw error
      await sleep(pauseMs)
    }
  }
  await remove()
}
