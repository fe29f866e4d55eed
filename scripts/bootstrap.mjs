// The first thing every npm script runs: plain JavaScript, no dependencies, any Node >= 20.
// Installs what the lock file pins, then runs the wanted program under Node 24 in this process's place.
//
//   node scripts/bootstrap.mjs <task> [arguments]
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

import { keepCompiledCode } from './compile-cache.mjs'
import { installDependencies, linkNode24 } from './install-dependencies.mjs'
import { findNode24, missingNodeMessage } from './node-24.mjs'
import { runInOurPlace } from './pass-through.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** What each task runs, below the repository. `run` takes any script: `bootstrap.mjs run bench/kill.ts --times 20`. */
const TASKS = {
  demo: ['bin/longhaul.mjs', 'demo'],
  test: ['test/run.ts'],
  longhaul: ['bin/longhaul.mjs'],
  build: ['scripts/build.mjs'],
  check: ['scripts/check.mjs'],
  run: [],
}

const [task, ...args] = process.argv.slice(2)
if (task === undefined || !Object.hasOwn(TASKS, task)) {
  console.error(`Expected one of ${Object.keys(TASKS).join(', ')}, got ${task ?? 'nothing'}`)
  process.exit(1)
}

try {
  installDependencies({ root })
  linkNode24({ root })
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error))
  process.exit(2)
}

const node = findNode24({ from: join(root, 'package.json') })
if (node === undefined) {
  console.error(missingNodeMessage())
  process.exit(2)
}
keepCompiledCode()
const path = [join(root, 'node_modules', '.bin'), process.env.PATH ?? ''].join(delimiter)
const argv = [...TASKS[task], ...args]
// Users call `run` with paths of the repository wherever npm was started.
runInOurPlace({
  command: node,
  args: [join(root, argv[0] ?? ''), ...argv.slice(1)],
  env: { ...process.env, PATH: path },
})
