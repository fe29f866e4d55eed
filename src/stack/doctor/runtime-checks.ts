import { availableParallelism, totalmem } from 'node:os'
import { toLonghaulError } from '../../contracts/errors.ts'
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
    name: 'environment',
    why: 'environment variables tell a worker where everything is',
    only: 'role',
    run: async (_paths, asked) => {
      try {
        asked?.tools.readEnvironment?.()
        return ok('has the variables that a worker reads')
      } catch (error) {
        const { message } = toLonghaulError(error)
        return fail(message, 'export it in the service of the worker (longhaul init writes .env.example)')
      }
    },
  },
]
