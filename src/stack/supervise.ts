/** Entry of the supervisor process: `node supervise.ts <plan file>`. Detached from the terminal by `up`; ends on SIGTERM. */
import { readFile } from 'node:fs/promises'

import type { StackPlan } from './stack-record.ts'
import { Supervisor } from './supervisor.ts'

const planFile = process.argv[2]
if (planFile === undefined) throw new Error('Expected the path of a plan')
const supervisor = new Supervisor(JSON.parse(await readFile(planFile, 'utf8')) as StackPlan)

const stop = (): void => {
  void supervisor.stop().then(() => process.exit(0))
}
process.on('SIGTERM', stop)
process.on('SIGINT', stop)
// The terminal that ran `up` may close: the stack stays.
process.on('SIGHUP', () => undefined)

await supervisor.start()
// Keeps the process alive while every service waits for its restart.
setInterval(() => undefined, 60_000)
