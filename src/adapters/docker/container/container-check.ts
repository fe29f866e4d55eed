import type { ContainerCreateOptions, ContainerInspectInfo, MountSettings } from 'dockerode'

import type { EngineFacts } from '../engine/engine.ts'

/** One difference between a created container and its specification. */
export interface Deviation {
  field: string
  wanted: string
  found: string
}

export interface ContainerCheckInput {
  spec: ContainerCreateOptions
  /** The container as the engine describes it. */
  found: ContainerInspectInfo
  facts: EngineFacts
}

type Fields = Record<string, unknown>

/** Paths that every engine hides or makes read-only by default. If one is missing, the container can reach the host's kernel. */
const MASKED = ['/proc/kcore', '/proc/keys', '/proc/timer_list', '/sys/firmware']
const READ_ONLY = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger']

/** Fields that engines set on their own. They are checked separately or have no effect here. */
const ENGINE_OWN = ['MaskedPaths', 'ReadonlyPaths', 'Runtime', 'ConsoleSize', 'Isolation', 'ContainerIDFile']

/** The names that engines use for their built-in profile. */
const BUILT_IN_SECCOMP = ['default', 'builtin']

/**
 * Compares a created container with its specification. Requests get lost: a proxy may rewrite them, an engine ignores unknown fields,
 * and a kernel may not support a limit. Only the settings that the engine has stored count. Every requested field must be present, and
 * no other field may be set.
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
  // A kernel that does not account for swap enforces only the memory limit. Engines then store "no limit" for the sum.
  if (field === 'MemorySwap' && facts.unenforced.includes('swap') && found === -1) return null
  const canonical = CANONICAL[field] ?? ((value: unknown) => value)
  const [left, right] = [wanted, found].map((value) => JSON.stringify(isNothing(value) ? null : canonical(value)))
  return left === right ? null : deviation(field, wanted, found)
}

/** Normalises the engines' different spellings: order, case, prefixes. */
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

/** Drops empty fields, which some engines return and others omit. */
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

/** Compares the mounts that the engine made with the requested ones: all of them must exist, read-only if requested, and no others. */
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

/** Returns whether a field is unset, in any of the ways in which engines write that. */
function isNothing(value: unknown): boolean {
  if (value === undefined || value === null || value === false || value === 0 || value === '') return true
  return typeof value === 'object' && Object.keys(value).length === 0
}

function deviation(field: string, wanted: unknown, found: unknown): Deviation {
  return { field, wanted: show(wanted), found: show(found) }
}

/** Kept short, because it becomes part of Temporal histories. */
function show(value: unknown): string {
  const text = typeof value === 'string' ? value : isNothing(value) ? 'nothing' : JSON.stringify(value)
  return text.length > 120 ? `${text.slice(0, 119)}…` : text
}
