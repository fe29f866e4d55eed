/** The trainer's interpreter in tests that run the real Python parts. */
import { execFile, type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import type { PolicyRef } from '../../src/contracts/policy.types.ts'
import { sha256Hex } from '../../src/platform/hash.ts'
import { freePort } from './loopback.ts'
import { HANG_MS } from './hang.ts'

/** Set by `npm test`; if absent, the Python environment was not set up, and such tests are reported as skipped. */
export const python: string | undefined = process.env['LONGHAUL_PYTHON']

export const withoutPython = python === undefined ? 'LONGHAUL_PYTHON is not set' : false

const TRAINER = join(import.meta.dirname, '../../trainer')

export const pythonEnvironment = {
  ...process.env,
  PYTHONPATH: `${TRAINER}:${join(TRAINER, 'tests')}`,
  OMP_WAIT_POLICY: 'PASSIVE',
  PYTHONDONTWRITEBYTECODE: '1',
}

/** Runs a short script and returns its output. */
export async function runPython(script: string, ...args: string[]): Promise<string> {
  const options = { env: pythonEnvironment, timeout: HANG_MS }
  const { stdout } = await promisify(execFile)(python ?? '', ['-c', script, ...args], options)
  return stdout.trim()
}

/** A tiny random model directory with MANIFEST.json and COMMITTED; returns the manifest's hash. */
export async function writeTinyPolicy(directory: string, seed: number): Promise<string> {
  const shared = process.env['LONGHAUL_TEST_SHARED']
  if (shared === undefined) return makeTinyPolicy(directory, seed)
  const made = join(shared, `tiny-policy-${await hashOfTinyPolicy()}-${seed}`)
  if (!existsSync(made)) {
    const making = `${made}-${process.pid}`
    await makeTinyPolicy(making, seed)
    // Another file of this run may have been faster; its policy is the same.
    await rename(making, made).catch(() => rm(making, { recursive: true, force: true }))
  }
  await cp(made, directory, { recursive: true })
  return sha256Hex(await readFile(join(directory, 'MANIFEST.json')))
}

function makeTinyPolicy(directory: string, seed: number): Promise<string> {
  const script =
    'import sys, pathlib; from tiny_policy import write_tiny_policy;' +
    'print(write_tiny_policy(pathlib.Path(sys.argv[1]), seed=int(sys.argv[2])))'
  return runPython(script, directory, String(seed))
}

/** Hash of the sources that make these policies, so that a tree with a changed trainer has its own. */
async function hashOfTinyPolicy(): Promise<string> {
  const sources = ['tests/tiny_policy.py', 'longhaul_trainer/directory.py', 'longhaul_trainer/rope.py']
  const texts = await Promise.all(sources.map((source) => readFile(join(TRAINER, source), 'utf8')))
  return sha256Hex(texts.join('\0')).slice(0, 16)
}

/** Two such policies, versions 0 and 1, in folders below `root`. */
export function writeTwoPolicies(root: string): Promise<[older: PolicyRef, newer: PolicyRef]> {
  const write = async (step: number): Promise<PolicyRef> => {
    const directory = join(root, `policy-${step}`)
    const manifestSha256 = await writeTinyPolicy(directory, step)
    return {
      version: `v00000${step}-${manifestSha256.slice(0, 8)}`,
      uri: pathToFileURL(directory).href,
      manifestSha256,
      globalStep: step,
      checkpointUri: null,
      checkpointSha256: null,
    }
  }
  return Promise.all([write(0), write(1)])
}

export interface RunningServer {
  url: string
  process: ChildProcess
  stop(): Promise<void>
}

export interface PolicyServerOptions {
  state: string
  maxVersions: number
  /** Whether `POST /v1/faults` may make the server misbehave. @default false */
  faults?: boolean
}

/** Words of the trainer's command line. */
export function serveWords(port: number, { state, maxVersions, faults = false }: PolicyServerOptions): string[] {
  const words = ['serve', '--port', String(port), '--state', state, '--max-versions', String(maxVersions)]
  return faults ? [...words, '--faults'] : words
}

/** Starts the embedded policy server on a free port and waits until it answers. */
export async function startPolicyServer(options: PolicyServerOptions): Promise<RunningServer> {
  const port = await freePort()
  const child = spawn(python ?? '', ['-m', 'longhaul_trainer', ...serveWords(port, options)], {
    env: pythonEnvironment,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const stop = async (): Promise<void> => {
    child.kill('SIGKILL')
    await exited
  }
  const url = `http://127.0.0.1:${port}`
  await untilServing(url, { hasEnded: () => child.exitCode !== null, stop })
  return { url, process: child, stop }
}

/** @throws Error if the server ends or does not answer in time; it is stopped then */
export async function untilServing(
  url: string,
  { hasEnded, stop }: { hasEnded: () => boolean; stop: () => Promise<void> },
): Promise<void> {
  for (const deadline = Date.now() + HANG_MS; Date.now() < deadline; ) {
    if (hasEnded()) throw new Error(`The policy server at ${url} has ended`)
    const healthy = await fetch(`${url}/health`).then(
      (response) => response.ok,
      () => false,
    )
    if (healthy) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  await stop()
  throw new Error(`The policy server at ${url} did not become healthy`)
}
