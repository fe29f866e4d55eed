import type { Engine } from '../engine/engine.ts'

/** Engines that answered that they cannot count what a container writes. */
const refusing = new WeakSet<Engine>()

/** Drivers that count by themselves. The snapshots of containerd (`overlayfs`, the default of fresh engines from 29) do not. */
const COUNTING = ['btrfs', 'zfs', 'devicemapper']

/** overlay2 counts per container only on xfs mounted with project quotas; whether it is, only the engine can say. */
export function mayLimitDisk(engine: Engine): boolean {
  const { storageDriver, backingFilesystem } = engine.facts
  if (refusing.has(engine)) return false
  return COUNTING.includes(storageDriver) || (storageDriver === 'overlay2' && backingFilesystem === 'xfs')
}

/** @returns whether the refusal was about the disk limit: the caller leaves it out from now on */
export function noteDiskLimitRefused(engine: Engine, error: unknown): boolean {
  const text = error instanceof Error ? error.message : ''
  if (!/storage-opt|pquota|quota/i.test(text)) return false
  refusing.add(engine)
  return true
}
