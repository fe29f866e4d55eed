/** Entry point of the process that keeps the engines of one run: `node keep-engines.ts DIRECTORY`. On SIGTERM it ends with its
 *  engines. */
import { withDirectoryLock } from '../../platform/directory-lock.ts'
import { fleetFiles } from './fleet-files.ts'
import { keepEngines } from './keeper.ts'

const [, , directory] = process.argv
if (directory === undefined) throw new Error('Expected the directory of a run’s engines')
const ending = new AbortController()
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => ending.abort())
// The terminal of the worker that started this process may close.
process.on('SIGHUP', () => undefined)

const files = fleetFiles(directory)
// A keeper that is ending holds the lock for a moment.
await withDirectoryLock({ path: files.lock, timeoutMs: 30_000 }, () =>
  keepEngines({
    files,
    signal: ending.signal,
    log: (line) => console.error(`${new Date().toISOString()} ${line}`),
  }),
)
