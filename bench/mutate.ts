/**
 * Mutation testing: makes small changes to the code, one at a time; some test must detect each.
 *
 *   npm run mutate -- [ts | python] [PATH…] [--concurrency 1] [--json FILE] [--survivors]
 *
 * `ts`: StrykerJS over src/domain, src/scaffold and src/grading, against the unit tests of those folders. `python`: mutmut over
 * objective/, batch/ and step/ of the trainer (trainer/mutate.py). Neither: both. With paths, only those files or folders are
 * changed. `--survivors`, for ts: only the survivors in the stored result of the folders are tested again, after tests were added for
 * the same code. Survivors are explained in docs/mutation-testing.md and docs/mutation-testing-python.md.
 *
 * Exit 1 if a folder scores below 90 % or a survivor has no explanation, 2 if nothing could be measured.
 */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { findOrMakePython } from '../src/stack/setup/set-up.ts'
import { benchArguments } from './support/arguments.ts'
import { mutateTypeScript } from './support/mutation/mutate-typescript.ts'

const ROOT = join(import.meta.dirname, '..')

const { values, positionals } = benchArguments({
  allowPositionals: true,
  options: {
    concurrency: { type: 'string', default: '1' },
    json: { type: 'string' },
    survivors: { type: 'boolean', default: false },
  },
})

process.exitCode = await main()

async function main(): Promise<number> {
  const [language, ...paths] = positionals
  const concurrency = Number(values.concurrency)
  if (language !== undefined && language !== 'ts' && language !== 'python') {
    console.error(`Expected ts or python, got ${language}`)
    return 2
  }
  if (!Number.isInteger(concurrency) || concurrency < 1) {
    console.error(`Expected --concurrency to be a whole number above 0, got ${values.concurrency}`)
    return 2
  }
  if (language === undefined && values.json !== undefined) {
    console.error('Expected ts or python before --json: each has a file of its own')
    return 2
  }
  if (values.survivors && language !== 'ts') {
    console.error('Expected ts before --survivors')
    return 2
  }
  const codes: number[] = []
  if (language !== 'python') {
    const { survivors: survivorsOnly, json = null } = values
    codes.push(await mutateTypeScript({ root: ROOT, paths, concurrency, json, survivorsOnly }))
  }
  if (language !== 'ts') codes.push(await mutatePython(paths, concurrency))
  return Math.max(...codes)
}

async function mutatePython(paths: readonly string[], concurrency: number): Promise<number> {
  const args = [
    join(ROOT, 'trainer/mutate.py'),
    ...(values.json === undefined ? [] : ['--json', values.json]),
    '--processes',
    String(concurrency),
    ...paths,
  ]
  const child = spawn(await findOrMakePython(), args, { cwd: ROOT, stdio: 'inherit' })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => resolve(code ?? 2))
  })
}
