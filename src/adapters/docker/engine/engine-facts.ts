/** What the engine's kernel and settings enforce, from its own answer to `/info`. */
export interface EngineFacts {
  /** Name of the seccomp profile that containers get by default; null where there is none. */
  seccomp: string | null
  cgroupVersion: 1 | 2
  /** Limits that this kernel does not enforce, also where a container requests them. */
  unenforced: ('memory' | 'swap' | 'pids' | 'cpuset' | 'cpu')[]
  defaultRuntime: string
  storageDriver: string
  /** File system below the storage driver; null where the engine does not tell. */
  backingFilesystem: string | null
}

/** The fields that are read; engines differ in the rest. */
export interface EngineInfo {
  InitBinary?: string
  NCPU?: number
  MemTotal?: number
  SecurityOptions?: string[] | null
  CgroupVersion?: string
  MemoryLimit?: boolean
  SwapLimit?: boolean
  PidsLimit?: boolean
  CPUSet?: boolean
  CpuCfsQuota?: boolean
  DefaultRuntime?: string
  Driver?: string
  DriverStatus?: [string, string][] | null
}

export function engineFacts(info: EngineInfo): EngineFacts {
  const limits = {
    memory: info.MemoryLimit,
    swap: info.SwapLimit,
    pids: info.PidsLimit,
    cpuset: info.CPUSet,
    cpu: info.CpuCfsQuota,
  }
  return {
    seccomp: seccompProfile(info.SecurityOptions ?? []),
    cgroupVersion: info.CgroupVersion === '2' ? 2 : 1,
    // An engine that says nothing of a limit is taken at its word about the container: only a plain "no" counts.
    unenforced: (Object.keys(limits) as (keyof typeof limits)[]).filter((name) => limits[name] === false),
    defaultRuntime: info.DefaultRuntime ?? '',
    storageDriver: info.Driver ?? '',
    backingFilesystem: info.DriverStatus?.find(([name]) => name === 'Backing Filesystem')?.[1] ?? null,
  }
}

/** `name=seccomp,profile=default` (20.10) or `…,profile=builtin` (newer); absent where the kernel has no seccomp. */
function seccompProfile(options: string[]): string | null {
  const option = options.find((text) => text.startsWith('name=seccomp'))
  if (option === undefined) return null
  return /profile=([^,]+)/.exec(option)?.[1] ?? 'default'
}
