import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Connection } from '@temporalio/client'
import { freePort } from '../../test/support/loopback.ts'

export interface BareServer {
  address: string
  pid: number
  stop(): Promise<void>
}

const SEARCH_ATTRIBUTES = [
  ...['TrainRun', 'Stage', 'TaskId', 'Outcome', 'PolicyVersion'].map((name) => `${name}=Keyword`),
  ...['Iteration', 'Turns'].map((name) => `${name}=Int`),
  'ResolvedRate=Double',
  'Evaluation=Bool',
]

/** A development server with a database file in a temporary folder, nothing else: what orchestration is measured against. */
export async function startBareServer(): Promise<BareServer> {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-bench-'))
  const port = await freePort()
  const args = ['server', 'start-dev', '--headless', '--ip', '127.0.0.1', '--port', String(port)]
  const attributes = SEARCH_ATTRIBUTES.flatMap((attribute) => ['--search-attribute', attribute])
  const database = ['--db-filename', join(folder, 'temporal.db'), '--log-level', 'error']
  const child = spawn(findTemporal(), [...args, ...database, ...attributes], { stdio: 'ignore' })
  const address = `127.0.0.1:${port}`
  await waitFor(address)
  return {
    address,
    pid: child.pid ?? 0,
    stop: async () => {
      const gone = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGKILL')
      await gone
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** User and system time of a process and its threads, in seconds. */
export function cpuSecondsOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  const ticksPerSecond = 100
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond
}

function findTemporal(): string {
  const given = process.env['TEMPORAL_CLI_PATH']
  if (given !== undefined) return given
  if (spawnSync('temporal', ['--version']).status === 0) return 'temporal'
  throw new Error('Set TEMPORAL_CLI_PATH to a Temporal CLI binary; `longhaul doctor` shows where set-up keeps one')
}

async function waitFor(address: string): Promise<void> {
  const deadline = Date.now() + 30_000
  for (;;) {
    try {
      const connection = await Connection.connect({ address, connectTimeout: 1_000 })
      await connection.workflowService.describeNamespace({ namespace: 'default' })
      await connection.close()
      return
    } catch (error) {
      if (Date.now() > deadline) throw error
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
}
