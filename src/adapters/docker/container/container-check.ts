import type { ContainerCreateOptions, ContainerInspectInfo, MountSettings } from 'dockerode'

import type { EngineFacts } from '../engine/engine.ts'

/** One way in which a created container is not what was asked for. */
export interface Deviation {
  field: string
  wanted: string
  found: string
}

export interface ContainerCheckInput {
  spec: ContainerCreateOptions
  /** What the engine says it created. */
  found: ContainerInspectInfo
  facts: EngineFacts
}

type Fields = Record<string, unknown>

/** What every engine hides from a container or makes read-only by default; a missing one opens the host's kernel. */
const MASKED = ['/proc/kcore', '/proc/keys', '/proc/timer_list', '/sys/firmware']
const READ_ONLY = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger']

/** Set by engines on their own; checked apart or without effect here. */
const ENGINE_OWN = ['MaskedPaths', 'ReadonlyPaths', 'Runtime', 'ConsoleSize', 'Isolation', 'ContainerIDFile']

/** The profiles that engines name as their built-in one. */
const BUILT_IN_SECCOMP = ['default', 'builtin']

/**
 * Compares a created container with its specification. Requests get lost on their way (a tool that rewrites them, an engine
 * that ignores a field it does not know, a limit that the kernel does not have), so what counts is what the engine has stored:
 * every field that was asked for must be there, and nothing that was not asked for may be.
 */
export function deviationsOf({ spec, found, facts }: ContainerCheckInput): Deviation[] {
  const wantedHost = (spec.HostConfig ?? {}) as Fields
  const foundHost = found.HostConfig as unknown as Fields
  const asked = Object.keys(wantedHost).map((field) => compare(field, wantedHost[field], foundHost[field], facts))
  const unasked = Object.keys(foundHost)
    .filter((field) => !(field in wantedHost) && !ENGINE_OWN.includes(field))
    .map((field) => (isNothing(foundHost[field]) ? null : deviation(field, null, foundHost[field])))
  return [...asked, ...unasked, ...topLevel(spec, found), ...guards(wantedHost, foundHost, facts)].filter(
    (one) => one !== null,
  )
}

export function describeDeviations(deviations: readonly Deviation[]): string {
  return deviations.map(({ field, wanted, found }) => `${field}: wanted ${wanted}, got ${found}`).join('; ')
}

function compare(field: string, wanted: unknown, found: unknown, facts: EngineFacts): Deviation | null {
  // A kernel that does not count swap has the memory limit alone; engines then store "no limit" for the sum.
  if (field === 'MemorySwap' && facts.unenforced.includes('swap') && found === -1) return null
  const canonical = CANONICAL[field] ?? ((value: unknown) => value)
  const [left, right] = [wanted, found].map((value) => JSON.stringify(isNothing(value) ? null : canonical(value)))
  return left === right ? null : deviation(field, wanted, found)
}

/** Engines spell the same thing differently: order, case, prefixes. */
const CANONICAL: Record<string, (value: unknown) => unknown> = {
  CapAdd: capabilities,
  CapDrop: capabilities,
  SecurityOpt: (value) => (value as string[]).map((option) => option.replace(/[:=]true$/, '')).toSorted(),
  Ulimits: (value) =>
    (value as { Name: string; Soft: number; Hard: number }[])
      .map(({ Name, Soft, Hard }) => `${Name.toLowerCase().replace('rlimit_', '')}=${Soft}:${Hard}`)
      .toSorted(),
  Mounts: (value) => (value as MountSettings[]).map(plainMount),
  RestartPolicy: (value) => (value as { Name: string }).Name || 'no',
  LogConfig: (value) => (value as { Type: string }).Type,
}

/** Without what is empty, as some engines send it back and some do not. */
function plainMount(mount: MountSettings): [string, unknown][] {
  const filled = ([, value]: [string, unknown]): boolean => !isNothing(value)
  const options = Object.entries(mount.VolumeOptions ?? {}).map(([name, value]): [string, unknown] => [
    `VolumeOptions.${name}`,
    typeof value === 'object' ? Object.entries(value).filter(filled) : value,
  ])
  const plain = Object.entries(mount).filter(([name]) => name !== 'VolumeOptions')
  return [...plain, ...options].filter(filled).toSorted(([one], [other]) => one.localeCompare(other))
}

function capabilities(value: unknown): string[] {
  return (value as string[]).map((name) => name.toUpperCase().replace(/^CAP_/, '')).toSorted()
}

function topLevel(spec: ContainerCreateOptions, found: ContainerInspectInfo): (Deviation | null)[] {
  const config = found.Config as unknown as Fields
  const wanted = spec as unknown as Fields
  const equal = ['User', 'Tty', 'OpenStdin', 'Cmd', 'Entrypoint', 'WorkingDir', 'Hostname', 'NetworkDisabled', 'Image']
  const networks = Object.keys(found.NetworkSettings.Networks ?? {}).filter((name) => name !== 'none')
  const foundLabels = found.Config.Labels ?? {}
  const labels = Object.entries(spec.Labels ?? {}).filter(([name, value]) => foundLabels[name] !== value)
  return [
    ...equal.map((field) => same(field, wanted[field], config[field])),
    ...labels.map(([name, value]) => deviation(`Labels.${name}`, value, foundLabels[name])),
    nothing('Volumes', config['Volumes']),
    mounts(spec.HostConfig?.Mounts ?? [], found.Mounts),
    nothing('Networks', networks),
    found.AppArmorProfile === 'unconfined' ? deviation('AppArmorProfile', 'a profile', 'unconfined') : null,
  ]
}

/** As the engine has made them of what was asked for: each of those, read-only as asked, and no other. */
function mounts(wanted: readonly MountSettings[], found: ContainerInspectInfo['Mounts']): Deviation | null {
  const asked = wanted.map(({ Type, Source, Target, ReadOnly }) => [Type, Source, Target, ReadOnly !== true].join(' '))
  const made = found.map((mount) => [mount.Type, mount.Name, mount.Destination, mount.RW].join(' '))
  return asked.toSorted().join() === made.toSorted().join() ? null : deviation('Mounts', asked, made)
}

function guards(wanted: Fields, found: Fields, facts: EngineFacts): (Deviation | null)[] {
  const missing = (field: string, paths: string[]): (Deviation | null)[] =>
    paths
      .filter((path) => !((found[field] as string[] | null) ?? []).includes(path))
      .map((path) => deviation(field, path, 'absent'))
  const isBuiltIn = facts.seccomp !== null && BUILT_IN_SECCOMP.includes(facts.seccomp)
  const isOwnRuntime = [facts.defaultRuntime, ''].includes((found['Runtime'] as string | undefined) ?? '')
  return [
    ...missing('MaskedPaths', MASKED),
    ...missing('ReadonlyPaths', READ_ONLY),
    isBuiltIn ? null : deviation('seccomp', "the engine's built-in profile", facts.seccomp),
    'Runtime' in wanted || isOwnRuntime ? null : deviation('Runtime', facts.defaultRuntime, found['Runtime']),
    ...facts.unenforced
      .filter((limit) => limit !== 'swap')
      .map((limit) => deviation(`limit on ${limit}`, 'enforced', 'not enforced by this kernel')),
  ]
}

function same(field: string, wanted: unknown, found: unknown): Deviation | null {
  const [left, right] = [wanted, found].map((value) => JSON.stringify(isNothing(value) ? null : value))
  return left === right ? null : deviation(field, wanted, found)
}

function nothing(field: string, found: unknown): Deviation | null {
  return isNothing(found) ? null : deviation(field, null, found)
}

/** Unset, in any of the ways in which engines write that. */
function isNothing(value: unknown): boolean {
  if (value === undefined || value === null || value === false || value === 0 || value === '') return true
  return typeof value === 'object' && Object.keys(value).length === 0
}

function deviation(field: string, wanted: unknown, found: unknown): Deviation {
  return { field, wanted: show(wanted), found: show(found) }
}

/** Short, because it becomes part of Temporal histories. */
function show(value: unknown): string {
  const text = typeof value === 'string' ? value : isNothing(value) ? 'nothing' : JSON.stringify(value)
  return text.length > 120 ? `${text.slice(0, 119)}…` : text
}
