import { existsSync } from 'node:fs'
import { homedir } from 'node:os'

import { connectEngine } from '../../adapters/docker/engine/engine.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import type { StackPaths } from '../paths.ts'
import type { StepContext } from '../steps.ts'
import { acquirePrivateEngine, engineFiles, type EngineUser } from './private-engine.ts'
import { findProgram, isRoot } from './system-packages.ts'

export interface StackEngine {
  dockerHost: string
  /** Longhaul started it, and stops it when its last stack goes down. */
  isPrivate: boolean
}

/** Finds an engine that is already running; null if there is none. An unreachable DOCKER_HOST is an error, never skipped.
 *  @throws LonghaulError `Sandbox.EngineUnavailable` */
export async function findEngine({ env = process.env }: { env?: NodeJS.ProcessEnv } = {}): Promise<string | null> {
  const named = env['DOCKER_HOST']
  if (named !== undefined && named !== '') return (await connectEngine({ host: named })).host
  for (const socket of ['/var/run/docker.sock', `${homedir()}/.docker/run/docker.sock`]) {
    if (!existsSync(socket)) continue
    const engine = await connectEngine({ host: `unix://${socket}`, timeoutMs: 5_000 }).catch((error: unknown) => {
      // A socket that does not answer belongs to a stopped engine; an engine that is too old must be reported.
      if (isLonghaulError(error) && error.details['version'] !== undefined) throw error
      return null
    })
    if (engine !== null) return engine.host
  }
  return null
}

export interface EnsureEngineInput {
  paths: StackPaths
  user: EngineUser
  context: StepContext
}

/** Returns the reachable engine, else starts a private one.
 *  @throws LonghaulError `Stack.SetupFailed` with instructions */
export async function ensureEngine({
  paths,
  user,
  context,
}: EnsureEngineInput): Promise<{ value: StackEngine; did: string }> {
  const reachable = await findEngine()
  if (reachable !== null) return { value: { dockerHost: reachable, isPrivate: false }, did: `${reachable} answers` }
  if (!isRoot() || findProgram('dockerd') === null) throw noEngine()
  const files = engineFiles(paths)
  const did = await acquirePrivateEngine({ files, user, log: context.log, signal: context.signal })
  const dockerHost = `unix://${files.socket}`
  const how = did === 'started' ? 'no engine was running: started a private one' : 'the private engine runs'
  return { value: { dockerHost, isPrivate: true }, did: `${how}, ${dockerHost}` }
}

function noEngine(): LonghaulError {
  return new LonghaulError({
    code: 'Stack.SetupFailed',
    message: [
      'No Docker engine answers, and this user cannot start one. One of these helps:',
      '  - an engine is installed but stopped:  sudo systemctl start docker',
      '  - it runs but refuses you:             sudo usermod -aG docker "$USER"   (then log in again)',
      '  - it is elsewhere:                     export DOCKER_HOST=unix:///path/to/docker.sock or tcp://host:port',
      '  - Debian or Ubuntu without one:        run this once as root; Longhaul installs docker.io and starts a private engine',
      '  - other systems:                       https://docs.docker.com/engine/install/',
    ].join('\n'),
  })
}
