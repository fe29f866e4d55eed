import { availableParallelism, totalmem } from 'node:os'
import { type CheckDefinition, fail, GIB, ok, warn } from './finding.ts'

export const RUNTIME_CHECKS: readonly CheckDefinition[] = [
  {
    group: 'runtime',
    name: 'Node',
    why: 'workers run TypeScript sources and need Node 24',
    run: async () =>
      Number.parseInt(process.versions.node, 10) >= 24
        ? ok(process.versions.node)
        : fail(process.versions.node, 'npm ci (installs Node 24 beside the packages), then start it as npx longhaul'),
  },
  {
    group: 'runtime',
    name: 'machine',
    why: 'the local stack is measured on 2 cores and 8 GiB',
    run: async () => {
      const value = `${availableParallelism()} cores, ${(totalmem() / GIB).toFixed(0)} GiB, ${process.platform}-${process.arch}`
      if (process.platform !== 'linux') return warn(value, 'run it on Linux, or in a Linux virtual machine')
      return totalmem() < 6 * GIB ? warn(value, 'give it 8 GiB of memory') : ok(value)
    },
  },
  {
    group: 'runtime',
    name: 'clock',
    why: 'records, leases and TLS need a clock that is right',
    run: async () =>
      new Date().getUTCFullYear() >= 2026
        ? ok(new Date().toISOString())
        : fail(new Date().toISOString(), 'set the clock'),
  },
]
