/** Entry of the supervisor process: `node supervise.ts <plan file>`. Detached from the terminal by `up`; ends on SIGTERM. */
import { readFile } from 'node:fs/promises'

import { engineUserKey } from './engine-user.ts'
import { watchEngine } from './engine-watch.ts'
import { identify } from '../platform/processes.ts'
import { engineFiles } from './setup/private-engine.ts'
import type { StackPlan } from './stack-record.ts'
import { Supervisor } from './supervisor.ts'

const planFile = process.argv[2]
if (planFile === undefined) throw new Error('Expected the path of a plan')
const plan = JSON.parse(await readFile(planFile, 'utf8')) as StackPlan
const supervisor = new Supervisor(plan)
const watching = new AbortController()

const stop = (): void => {
  watching.abort()
  void supervisor.stop().then(() => process.exit(0))
}
process.on('SIGTERM', stop)
process.on('SIGINT', stop)
// The terminal that ran `up` may close: the stack stays.
process.on('SIGHUP', () => undefined)

if (plan.ownsEngine) {
  void watchEngine({
    files: engineFiles({ cacheDir: plan.facts.cacheDir, runDir: plan.runDir }),
    user: { key: engineUserKey(plan.facts), owner: identify(process.pid) },
    log: (line) => console.error(`${new Date().toISOString()} ${line}`),
    signal: watching.signal,
  })
}
await supervisor.start()
// Keeps the process alive while every service waits for its restart.
setInterval(() => undefined, 60_000)
