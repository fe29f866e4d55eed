/** Shared by whole-system tests and benches: a running stack, a connection, its artifacts and its engine. */
import { createDirectoryStore } from '../../src/adapters/artifacts/directory-store.ts'
import { connectEngine, type Engine } from '../../src/adapters/docker/engine/engine.ts'
import { connect, type LonghaulConnection } from '../../src/client/index.ts'
import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import { attachStack, type RunningStack } from './start-stack.ts'

export interface PipelineWorld {
  stack: RunningStack
  connection: LonghaulConnection
  store: ArtifactStore
  engine: Engine
  /** Closes the connection; the caller that started the stack stops it. */
  close(): Promise<void>
}

/** For the `skip` of tests that need a whole stack: `npm test` starts one and names it here. */
export const needsStack = process.env['LONGHAUL_STACK'] === undefined ? 'needs the stack that npm test starts' : false

/** Attaches to the stack that the environment names. */
export async function attachWorld(): Promise<PipelineWorld> {
  const { LONGHAUL_STACK: name = '', LONGHAUL_HOME: home = '' } = process.env
  const stack = await attachStack({ name, home })
  if (stack === null) throw new Error(`Expected stack ${name} to run, as LONGHAUL_STACK says [LONGHAUL_HOME=${home}]`)
  return worldOf(stack)
}

export async function worldOf(stack: RunningStack): Promise<PipelineWorld> {
  const connection = await connect({ address: stack.temporalAddress, namespace: stack.namespace })
  const host = stack.dockerHost
  return {
    stack,
    connection,
    store: createDirectoryStore({ root: stack.artifactsDir }),
    engine: await connectEngine(host === null ? {} : { host }),
    close: () => connection.close(),
  }
}
