import { execFile } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { ContainerInspectInfo } from 'dockerode'
import type { Engine } from '../engine/engine.ts'

const run = promisify(execFile)

/** An engine holds a descriptor and a buffer for each level of a folder that it removes. Honest trees have a few dozen levels, and
 *  no path has more than 2,048. */
const MAX_LEVELS = 500
const FIND_MS = 30_000
/** A gibibyte of a sandbox may hold 65,536 folders. */
const DELETE_MS = 120_000
const STOP_MS = 10_000

/** Where overlay2 keeps what a container has written; undefined with other drivers. */
export function writtenFolderOf({ GraphDriver: graph }: ContainerInspectInfo): string | undefined {
  return (graph.Data as Record<string, string> | null)?.['UpperDir']
}

/** Whether this is the engine's own machine, and its files may be read here. */
export function mayRead(directory: string): Promise<boolean> {
  return access(directory, constants.R_OK | constants.X_OK).then(
    () => true,
    () => false,
  )
}

/**
 * Takes folders within folders that no engine can remove out of a container that is about to be removed. Thousands of levels cost the
 * engine all of its descriptors, so that it serves no container for that time, and the container stays. The container is ended first:
 * its processes could go on. Does nothing where the engine's files cannot be reached from here.
 */
export async function flattenWrittenFolder(engine: Engine, name: string): Promise<void> {
  const container = engine.docker.getContainer(name)
  const facts = await container.inspect().catch(() => null)
  const directory = facts === null ? undefined : writtenFolderOf(facts)
  if (directory === undefined || !(await mayRead(directory)) || !(await isDeep(directory))) return
  await container.kill({ signal: 'SIGKILL' }).catch(() => undefined)
  for (const end = performance.now() + STOP_MS; performance.now() < end; await sleep(50)) {
    const now = await container.inspect().catch(() => null)
    if (now?.State.Running !== true) break
  }
  await find(directory, ['-delete'], DELETE_MS)
}

async function isDeep(directory: string): Promise<boolean> {
  return (await find(directory, ['-print', '-quit'], FIND_MS)) !== ''
}

/** Of GNU and by its own names: it walks trees of any depth with few descriptors. What goes meanwhile makes it end with 1. */
async function find(directory: string, action: string[], timeout: number): Promise<string> {
  const args = [directory, '-xdev', '-mindepth', String(MAX_LEVELS), ...action]
  const settings = { timeout, env: { PATH: process.env['PATH'], LC_ALL: 'C' } }
  const { stdout } = await run('find', args, settings).catch((error: { stdout?: string }) => ({
    stdout: error.stdout ?? '',
  }))
  return stdout
}
