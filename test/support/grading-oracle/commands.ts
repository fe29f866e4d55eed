/** The test commands of swebench 4.1.0 as source text of the file with them: facts, read from the package. */
import { join } from 'node:path'
import { PARSERS_4 } from '../../../src/grading/parsers/names.ts'
import type { RepositoryCommands } from '../../../src/grading/profiles/swebench-4.1-commands.ts'
import { runCommand } from '../../../src/platform/run-command.ts'
import { locateHarness } from './oracle.ts'

interface Facts {
  version: string
  sha256: string
  repositories: Record<string, Record<string, { install?: string; test_cmd: string; eval_commands?: string[] }>>
}

export interface KnownCommands {
  version: string
  /** Over the package's files of constants. */
  sha256: string
  commands: [repo: string, groups: RepositoryCommands[]][]
}

export async function readCommands(): Promise<KnownCommands> {
  const { python, folder } = await locateHarness('swebench-4.1')
  const repositories = [...PARSERS_4.keys()].filter((name) => name.includes('/')).toSorted()
  const { stdout } = await runCommand({
    command: python,
    args: [join(import.meta.dirname, 'commands.py'), folder, ...repositories],
    timeoutMs: 60_000,
  })
  const { version, sha256, repositories: found } = JSON.parse(stdout) as Facts
  return { version, sha256, commands: Object.entries(found).map(([repo, versions]) => [repo, group(versions)]) }
}

/** Text of `src/grading/profiles/swebench-4.1-commands.ts`, before it is formatted. */
export async function commandsSource(): Promise<string> {
  const facts = await readCommands()
  return `/**
 * How swebench ${facts.version} tests each repository, by version. Written by \`node test/support/grading-oracle/record-commands.ts\`
 * from the package; SHA-256 over its files of constants: ${facts.sha256}.
 */
export interface RepositoryCommands {
  versions: readonly string[]
  /** Run before the tests are laid in. */
  install: string | null
  testCommand: string
  /** Run first of all, in the repository. */
  evalCommands: readonly string[]
}

export const SWEBENCH_4_1_COMMANDS: ReadonlyMap<string, readonly RepositoryCommands[]> = new Map<string, readonly RepositoryCommands[]>(${JSON.stringify(facts.commands)})
`
}

/** Groups versions with equal commands. */
function group(versions: Facts['repositories'][string]): RepositoryCommands[] {
  const groups = new Map<string, RepositoryCommands & { versions: string[] }>()
  for (const [version, { install = null, test_cmd: testCommand, eval_commands: evalCommands = [] }] of Object.entries(
    versions,
  )) {
    const key = JSON.stringify([install, testCommand, evalCommands])
    const known = groups.get(key)
    if (known === undefined) groups.set(key, { versions: [version], install, testCommand, evalCommands })
    else known.versions.push(version)
  }
  return [...groups.values()]
}
