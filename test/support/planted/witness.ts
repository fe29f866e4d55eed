import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { runCommand } from '../../../src/stack/run-command.ts'
import type { Leaf } from './run-leaves.ts'

/** The test that must see a plant. */
export interface Witness {
  /** A test file of Node, or of pytest where it ends in `.py`; from the repository's root. */
  file: string
  /** Its title, without those of the suites around it; for pytest `test_name`, or `test_name[case]`. */
  test: string
}

export type Testimony = { end: 'passed' } | { end: 'failed'; why: string } | { end: 'skipped'; why: string }

/** A plant may make a test wait for what never comes. */
const LIMIT_MS = 240_000

const RUN_LEAVES = join(import.meta.dirname, 'run-leaves.ts')

/**
 * Runs one test in the tree at `root`, against the services that this process has in its environment.
 * @throws Error where the test did not run: there is none of that title, its file does not load, a hook failed, time was over
 */
export function hear(root: string, witness: Witness, signal?: AbortSignal): Promise<Testimony> {
  return witness.file.endsWith('.py') ? hearPytest(root, witness, signal) : hearNode(root, witness, signal)
}

async function hearNode(root: string, { file, test }: Witness, signal?: AbortSignal): Promise<Testimony> {
  const { stdout, tail, timedOut } = await runCommand({
    command: process.execPath,
    args: [RUN_LEAVES, file, test],
    cwd: root,
    env: environment({}),
    timeoutMs: LIMIT_MS,
    signal,
  })
  const leaves = stdout
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Leaf)
  const [leaf, ...others] = leaves.filter(({ title }) => title === test)
  if (timedOut || leaf === undefined || others.length > 0) {
    const what = timedOut
      ? `did not end within ${LIMIT_MS / 1000} s`
      : `ran ${leaf === undefined ? 0 : 1 + others.length} times`
    throw new Error(`Expected "${test}" of ${file} to run once, it ${what}:\n${tail}`)
  }
  if (leaf.end === 'passed') return { end: 'passed' }
  if (leaf.end === 'failed' && leaf.kind !== 'testCodeFailure') {
    throw new Error(`Expected "${test}" of ${file} to fail by itself, it failed by ${leaf.kind}: ${leaf.why}`)
  }
  return { end: leaf.end, why: leaf.why }
}

async function hearPytest(root: string, { file, test }: Witness, signal?: AbortSignal): Promise<Testimony> {
  const python = process.env['LONGHAUL_PYTHON']
  if (python === undefined) return { end: 'skipped', why: 'LONGHAUL_PYTHON is not set' }
  const report = join(root, 'witness.xml')
  const { tail } = await runCommand({
    command: python,
    args: ['-m', 'pytest', `${file}::${test}`, '-q', '-m', '', '-p', 'no:cacheprovider', '--junitxml', report],
    cwd: root,
    env: environment({ PYTHONPATH: join(root, 'trainer') }),
    timeoutMs: LIMIT_MS,
    signal,
  })
  const suite = /<testsuite [^>]*>/.exec(await readFile(report, 'utf8').catch(() => ''))?.[0] ?? ''
  const count = (name: string): number => Number(new RegExp(` ${name}="(\\d+)"`).exec(suite)?.[1] ?? 0)
  if (count('tests') === 0 || count('errors') > 0) throw new Error(`Expected ${file}::${test} to run:\n${tail}`)
  if (count('failures') > 0) return { end: 'failed', why: tail }
  return count('skipped') > 0 ? { end: 'skipped', why: tail } : { end: 'passed' }
}

/** The services of this process, without what is made of the original code or says that a runner is above. */
function environment(changes: Record<string, string>): NodeJS.ProcessEnv {
  const { NODE_TEST_CONTEXT: _runner, LONGHAUL_BUNDLE: _bundle, ...kept } = process.env
  return { ...kept, PYTHONDONTWRITEBYTECODE: '1', ...changes }
}
