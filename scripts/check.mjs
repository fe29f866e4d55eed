// `npm run check`: everything that can be said about the code without running the system. Runs under Node 24, needs no
// network, server, engine or GPU once the environments are cached. Arguments choose parts: `npm run check -- lint types`.
import { spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const bin = (tool) => join(root, 'node_modules', '.bin', tool)

/** Longer than any part needs on two cores that others load (Python tests: three minutes idle); a part that hangs is a failure. */
const PART_LIMIT_MS = 2_700_000

/** All parts run, also after a failure: one round shows everything. The long ones come first, they decide the end. */
const PARTS = [
  { name: 'python-tests', command: process.execPath, args: ['test/trainer.ts'] },
  { name: 'python-types', python: ['-m', 'pyright', '--pythonpath'], withInterpreter: true, folder: 'trainer' },
  { name: 'lint', command: bin('oxlint'), args: ['--type-aware', '--deny-warnings'] },
  {
    name: 'boundaries',
    command: process.execPath,
    args: ['test/run.ts', '--no-stack', 'test/architecture/**/*.test.ts'],
  },
  { name: 'types', command: bin('tsc'), args: ['--noEmit', '-p', '.'] },
  { name: 'viewer-types', command: bin('tsc'), args: ['--noEmit', '-p', 'viewer'] },
  { name: 'unused', command: bin('knip'), args: [] },
  // The same without tests and benches as entries: code that only tests still call is dead.
  { name: 'unused-production', command: bin('knip'), args: ['--production', '--config', 'knip.production.json'] },
  { name: 'format', command: bin('biome'), args: ['format'] },
  { name: 'python-lint', python: ['-m', 'ruff', 'check', '.'], folder: 'trainer' },
  { name: 'python-format', python: ['-m', 'ruff', 'format', '--check', '.'], folder: 'trainer' },
]

process.exitCode = await main(process.argv.slice(2))

async function main(wanted) {
  if (wanted.includes('--help') || wanted.includes('-h')) {
    console.log(`npm run check [-- PART…]\n\nParts: ${PARTS.map(({ name }) => name).join(', ')}`)
    return 0
  }
  const unknown = wanted.filter((name) => !PARTS.some((part) => part.name === name))
  if (unknown.length > 0) {
    console.error(`Expected parts of ${PARTS.map(({ name }) => name).join(', ')}; got ${unknown.join(', ')}`)
    return 2
  }
  const parts = PARTS.filter(({ name }) => wanted.length === 0 || wanted.includes(name))
  const python = parts.some((part) => part.python) ? await interpreter() : null
  const started = Date.now()
  const failed = await runSideBySide(parts, python)
  const took = `${seconds(started)} s`
  console.log(failed.length === 0 ? `all checks passed in ${took}` : `failed: ${failed.join(', ')} (${took})`)
  return failed.length === 0 ? 0 : 1
}

/** Loaded late, so that parts without Python run where there is none. */
async function interpreter() {
  const { findOrMakePython } = await import('../src/stack/setup/set-up.ts')
  return findOrMakePython()
}

/** As many at once as there are cores; returns the names of those that failed. */
async function runSideBySide(parts, python) {
  const waiting = [...parts]
  const failed = []
  const lane = async () => {
    for (let part = waiting.shift(); part !== undefined; part = waiting.shift()) {
      if (!(await runPart(part, python))) failed.push(part.name)
    }
  }
  await Promise.all(Array.from({ length: Math.max(1, availableParallelism()) }, lane))
  return failed
}

async function runPart(part, python) {
  const started = Date.now()
  const { isGood, output } = await run({
    command: part.python ? python : part.command,
    args: part.python ? [...part.python, ...(part.withInterpreter ? [python] : [])] : part.args,
    cwd: join(root, part.folder ?? '.'),
  })
  if (!isGood) process.stdout.write(output)
  console.log(`${isGood ? 'ok  ' : 'FAIL'}  ${part.name.padEnd(14)} ${seconds(started)} s`)
  return isGood
}

/** Output is kept until the end, so that parts do not mix theirs. */
function run({ command, args, cwd }) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd,
      timeout: PART_LIMIT_MS,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, OMP_WAIT_POLICY: 'PASSIVE', PYTHONPATH: join(root, 'trainer') },
    })
    const chunks = []
    child.stdout.on('data', (chunk) => chunks.push(chunk))
    child.stderr.on('data', (chunk) => chunks.push(chunk))
    child.on('error', (error) => resolve({ isGood: false, output: `${error.message}\n` }))
    child.on('close', (code, signal) => {
      const end = signal ? `\nended by ${signal}\n` : ''
      resolve({ isGood: code === 0, output: `${Buffer.concat(chunks).toString('utf8')}${end}` })
    })
  })
}

function seconds(since) {
  return ((Date.now() - since) / 1000).toFixed(1)
}
