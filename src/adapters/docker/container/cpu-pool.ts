/** Distributes the processors of one host among containers, so that programs inside see their share and neighbours share evenly. */
export interface CpuPool {
  /** Returns the least used processors in the engine's syntax (`0,3`). Repeated calls with the same name return the same processors. */
  take(name: string, cpus: number): string
  /** Records the processors of an adopted container. */
  keep(name: string, cpuset: string): void
  give(name: string): void
}

/** Returns how many processors a limit pins: rounded up, and at most as many as the machine has. */
export function pinnedCpus(limit: number, available: number): number {
  return Math.max(1, Math.min(Math.ceil(limit), available))
}

/** Counts live only in memory. They balance load and grant nothing, so they may start anew with the worker. */
export function createCpuPool({ cpus: available }: { cpus: number }): CpuPool {
  const held = new Map<string, string>()

  const uses = (): number[] => {
    const counts = Array.from({ length: available }, () => 0)
    for (const cpu of [...held.values()].flatMap((cpuset) => cpuset.split(','))) {
      if (counts[Number(cpu)] !== undefined) counts[Number(cpu)] = (counts[Number(cpu)] ?? 0) + 1
    }
    return counts
  }

  return {
    take(name, cpus) {
      const known = held.get(name)
      if (known !== undefined && known.split(',').length === pinnedCpus(cpus, available)) return known
      held.delete(name)
      const leastUsed = uses()
        .map((count, cpu) => ({ count, cpu }))
        .sort((a, b) => a.count - b.count || a.cpu - b.cpu)
        .slice(0, pinnedCpus(cpus, available))
      const cpuset = leastUsed
        .map(({ cpu }) => cpu)
        .sort((a, b) => a - b)
        .join(',')
      held.set(name, cpuset)
      return cpuset
    },
    keep(name, cpuset) {
      held.set(name, cpuset)
    },
    give(name) {
      held.delete(name)
    },
  }
}
