import { identify } from '../platform/processes.ts'
import { setUp } from './setup/set-up.ts'

/** Interpreter of the trainer's environment, made when it is missing: what `npm run check` and the benches need. */
export async function findOrMakePython(): Promise<string> {
  const { python } = await setUp({
    parts: ['python'],
    engineUser: { key: `check-${process.pid}`, owner: identify(process.pid) },
    log: (line) => process.stderr.write(`${line}\n`),
  })
  if (python === null) throw new Error('The python part always yields an interpreter')
  return python
}
