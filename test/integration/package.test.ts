/** The package as users get it: packed, installed in an empty folder far from the checkout, used as command and as library. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { needsStack } from '../support/pipeline-world.ts'
import { HANG_MS } from '../support/hang.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
/** npm may have to fetch the dependencies; on a slow line that takes minutes. */

interface Ended {
  exitCode: number
  stdout: string
  stderr: string
}

let scratch: string
let consumer: string
let packed: string[]
const hadDist = existsSync(join(root, 'dist'))

before(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'longhaul-package-'))
  consumer = join(scratch, 'consumer')
  await mkdir(consumer)
  console.error('package  building and packing')
  const pack = await ran('npm', ['pack', '--json', '--pack-destination', scratch], {
    cwd: root,
    limitMs: HANG_MS,
  })
  // The build's own lines come before the answer.
  const [made] = JSON.parse(pack.stdout.slice(pack.stdout.indexOf('[\n'))) as [
    { filename: string; files: { path: string }[] },
  ]
  packed = made.files.map(({ path }) => path)
  await writeFile(join(consumer, 'package.json'), '{ "name": "consumer", "private": true, "type": "module" }\n')
  console.error(`package  installing ${made.filename} (${packed.length} files) in an empty folder`)
  const options = ['--no-audit', '--no-fund', '--omit=optional', '--prefer-offline', '--loglevel=error']
  await ran('npm', ['install', ...options, join(scratch, made.filename)], { limitMs: HANG_MS })
})

after(async () => {
  await rm(scratch, { recursive: true, force: true })
  if (!hadDist) await rm(join(root, 'dist'), { recursive: true, force: true })
})

/** Never rejects for an exit code; the Node that runs this test comes first on PATH, as the package wants Node 24. */
function call(
  command: string,
  args: string[],
  {
    cwd = consumer,
    env = {},
    limitMs = HANG_MS,
  }: { cwd?: string; env?: Record<string, string>; limitMs?: number } = {},
): Promise<Ended> {
  const path = [dirname(process.execPath), process.env['PATH']].join(delimiter)
  return new Promise((resolve, reject) => {
    const options = { cwd, env: { ...process.env, ...env, PATH: path }, timeout: limitMs, maxBuffer: 1 << 26 }
    execFile(command, args, options, (error, stdout, stderr) => {
      const exitCode = error === null ? 0 : error.code
      if (typeof exitCode === 'number') resolve({ exitCode, stdout, stderr })
      else reject(new Error(`${command} ${args.join(' ')} did not end by itself`, { cause: error }))
    })
  })
}

async function ran(command: string, args: string[], options: Parameters<typeof call>[2] = {}): Promise<Ended> {
  const ended = await call(command, args, options)
  assert.equal(ended.exitCode, 0, `${command} ${args.join(' ')}\n${ended.stdout}\n${ended.stderr}`)
  return ended
}

test('the package holds what a worker needs to start, and no sources or tests', () => {
  for (const path of [
    'bin/longhaul.mjs',
    'dist/cli/main.js',
    'dist/client/index.d.ts',
    'dist/workflow-bundle.js',
    'dist/viewer/pages/index.html',
    'dist/viewer/pages/start.js',
    'dist/viewer/pages/viewer.js',
    'dist/viewer/pages/viewer.css',
    'recipes/demo.yaml',
    'trainer/longhaul_trainer/__main__.py',
    'trainer/requirements.lock',
    'policies/demo-base/model/config.json',
  ]) {
    assert.ok(packed.includes(path), `no ${path}`)
  }
  const strays = packed.filter((path) => /\.test\.|^src\/|^test\/|__pycache__|(?<!\.d)\.ts$/.test(path))
  assert.deepEqual(strays, [])
})

test('the installed command shows its help and rejects unknown usage with exit code 1', async () => {
  const help = await ran('npx', ['--no-install', 'longhaul', '--help'])
  for (const command of ['doctor', 'up', 'down', 'worker', 'train', 'evaluate', 'report', 'schedule']) {
    assert.match(help.stdout, new RegExp(`^\\s+${command}\\b`, 'm'))
  }
  for (const usage of [['frobnicate'], ['train', '--no-such-option'], ['report']]) {
    const { exitCode, stdout, stderr } = await call('npx', ['--no-install', 'longhaul', ...usage])
    assert.equal(exitCode, 1, `${usage.join(' ')}\n${stdout}${stderr}`)
    assert.notEqual(stderr.trim(), '', usage.join(' '))
  }
})

test('a program that imports the package type-checks, and a wrong one fails', async () => {
  const good = `import { LonghaulError, startEvaluation, startTraining, type TrainAgentResult } from 'longhaul'
    export async function job(): Promise<TrainAgentResult | null> {
      const run = await startTraining({ recipe: 'demo', overrides: { seed: 2 } })
      const outcome = await run.outcome()
      const evaluation = await startEvaluation({ recipe: 'nightly', policy: 'promoted' })
      await evaluation.close()
      if (outcome.status === 'completed') return outcome.result
      if (outcome.status === 'failed') throw new LonghaulError({ code: outcome.code, message: outcome.message })
      return null
    }
    // @ts-expect-error recipes have names
    export const wrong = (): unknown => startTraining({ recipe: 7 })
    // @ts-expect-error no such code
    export const unknownCode = (): unknown => new LonghaulError({ code: 'No.Such', message: '' })
    `
  await writeFile(join(consumer, 'job.ts'), good)
  const flags = '--noEmit --strict --exactOptionalPropertyTypes --skipLibCheck --module nodenext --target es2024'.split(
    ' ',
  )
  await ran(join(root, 'node_modules', '.bin', 'tsc'), [...flags, '--types', '', 'job.ts'])
})

test('a program gets an error with a code within seconds when no server listens', async () => {
  const program = `import { isLonghaulError, startEvaluation } from 'longhaul'
    await startEvaluation({ recipe: 'nightly' }).catch((error) => console.log(isLonghaulError(error) && error.code))`
  await writeFile(join(consumer, 'evaluate.js'), program)
  // The discard port of the loopback interface.
  const env = { LONGHAUL_TEMPORAL_ADDRESS: '127.0.0.1:9', TEMPORAL_ADDRESS: '' }
  assert.equal((await ran(process.execPath, ['evaluate.js'], { env })).stdout.trim(), 'Temporal.Unreachable')
})

test('a program starts a run on a stack and learns how it ended', { skip: needsStack }, async () => {
  const program = `import { startTraining } from 'longhaul'
    const run = await startTraining({ recipe: 'no-such-recipe' })
    const outcome = await run.outcome()
    await run.close()
    console.log(outcome.status, outcome.code)`
  await writeFile(join(consumer, 'train.js'), program)
  assert.equal((await ran(process.execPath, ['train.js'])).stdout.trim(), 'failed Config.NotFound')
})
