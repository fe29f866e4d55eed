/** The environments of swebench 4.1.0 as text of the file with them: facts, read from the package. */
import { join } from 'node:path'
import { PARSERS_4 } from '../../../src/grading/parsers/names.ts'
import type { HarnessEnvironments } from '../../../src/adapters/datasets/task-environment.ts'
import { runCommand } from '../../../src/platform/run-command.ts'
import { locateHarness } from './oracle.ts'

type Facts = Omit<HarnessEnvironments, 'repositories'> & { repositories: Record<string, Record<string, object>> }

/** Text of `infra/images/environments/swebench-4.1.json`. */
export async function environmentsSource(): Promise<string> {
  const { python, folder } = await locateHarness('swebench-4.1')
  const repositories = [...PARSERS_4.keys()].filter((name) => name.includes('/')).toSorted()
  const { stdout } = await runCommand({
    command: python,
    args: [join(import.meta.dirname, 'environments.py'), folder, ...repositories],
    timeoutMs: 60_000,
  })
  const facts = JSON.parse(stdout) as Facts
  const grouped = Object.entries(facts.repositories).map(([repo, versions]) => [repo, group(versions)])
  return `${JSON.stringify({ ...facts, repositories: Object.fromEntries(grouped) as unknown }, null, 1)}\n`
}

/** Groups versions with equal environments. */
function group(versions: Record<string, object>): object[] {
  const groups = new Map<string, { versions: string[] }>()
  for (const [version, spec] of Object.entries(versions)) {
    const key = JSON.stringify(spec)
    const known = groups.get(key)
    if (known === undefined) groups.set(key, { versions: [version], ...spec })
    else known.versions.push(version)
  }
  return [...groups.values()]
}
