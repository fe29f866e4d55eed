// `npm run check`: everything that can be said about the code without running the system. Runs under Node 24.
import { spawnSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const { findOrMakePython } = await import('../src/stack/trainer-python.ts')

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const bin = (tool) => join(root, 'node_modules', '.bin', tool)
const python = await findOrMakePython()

/** Name, program, arguments, folder. All run, also after a failure: one round shows everything. */
const CHECKS = [
  ['format', bin('biome'), ['format']],
  ['lint', bin('oxlint'), ['--type-aware', '--deny-warnings']],
  ['types', bin('tsc'), ['--noEmit', '-p', '.']],
  ['unused code', bin('knip'), []],
  ['boundaries', process.execPath, ['--test', 'test/architecture/**/*.test.ts']],
  ['Python format', python, ['-m', 'ruff', 'format', '--check', '.'], 'trainer'],
  ['Python lint', python, ['-m', 'ruff', 'check', '.'], 'trainer'],
  ['Python types', python, ['-m', 'pyright'], 'trainer'],
  ['Python tests', python, ['-m', 'pytest'], 'trainer'],
]

const failed = []
for (const [name, command, args, folder = '.'] of CHECKS) {
  const started = Date.now()
  const { status, stdout, stderr } = spawnSync(command, args, {
    cwd: join(root, folder),
    encoding: 'utf8',
    env: { ...process.env, OMP_WAIT_POLICY: 'PASSIVE', PYTHONPATH: join(root, 'trainer') },
    timeout: 900_000,
  })
  const isGood = status === 0
  if (!isGood) {
    failed.push(name)
    process.stdout.write(`${stdout ?? ''}${stderr ?? ''}`)
  }
  console.log(`${isGood ? 'ok  ' : 'FAIL'}  ${name.padEnd(14)} ${((Date.now() - started) / 1000).toFixed(1)} s`)
}
console.log(failed.length === 0 ? 'all checks passed' : `failed: ${failed.join(', ')}`)
process.exit(failed.length === 0 ? 0 : 1)
