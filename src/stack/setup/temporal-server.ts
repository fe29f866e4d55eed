import { join } from 'node:path'
import { LonghaulError } from '../../contracts/errors.ts'
import { exists, makeDirectory } from '../../platform/files.ts'
import { runCommand } from '../../platform/run-command.ts'
import { packageFile } from '../paths.ts'
import type { StepContext } from '../steps.ts'
import { buildGoPrograms, findGo, moduleKey } from './go-build.ts'

const MODULE = packageFile('infra/temporal-server')
/** Raise it when build flags change a program. */
const BUILD_REVISION = '1'

/** Programs of the module; the server and its UI are both called `server` there. */
const PROGRAMS = {
  server: 'go.temporal.io/server/cmd/server',
  sqlTool: 'go.temporal.io/server/cmd/tools/sql',
  ui: 'github.com/temporalio/ui-server/v2/cmd/server',
} as const

/** Paths of the programs that serve Temporal from a database. */
export type TemporalServer = Record<keyof typeof PROGRAMS, string> & {
  /** Such as `1.31.2`. */
  version: string
}

interface EnsureTemporalServerInput {
  cacheDir: string
  context: StepContext
}

/**
 * Takes the programs from the cache, else builds them with Go: Temporal publishes them only as container images. A build takes about 6
 * minutes on two cores with an empty Go cache; 2 after a build of the CLI, which shares packages.
 * @throws LonghaulError `Stack.SetupFailed`
 */
export async function ensureTemporalServer(
  input: EnsureTemporalServerInput,
): Promise<{ value: TemporalServer; did: string }> {
  const { cacheDir, context } = input
  const folder = join(cacheDir, 'temporal-server', await moduleKey({ module: MODULE, revision: BUILD_REVISION }))
  const programs = {
    server: join(folder, 'temporal-server'),
    sqlTool: join(folder, 'temporal-sql-tool'),
    ui: join(folder, 'temporal-ui-server'),
  }
  const names = Object.keys(PROGRAMS) as (keyof typeof PROGRAMS)[]
  const missing: (keyof typeof PROGRAMS)[] = []
  for (const name of names) if (!(await exists(programs[name]))) missing.push(name)
  let did = 'cached'
  if (missing.length > 0) {
    const go = await findGo({ module: MODULE, context })
    if (!go.usable) throw withoutGo(go)
    await makeDirectory(folder)
    context.log('building the Temporal server with Go (2 to 6 minutes, once)')
    for (const name of missing) {
      const what = { server: 'the Temporal server', sqlTool: 'its SQL tool', ui: 'its UI' }[name]
      const command = PROGRAMS[name]
      await buildGoPrograms({ what, go: go.path, module: MODULE, commands: [command], target: programs[name], context })
    }
    did = `built with ${go.version}`
  }
  return { value: { ...programs, version: await versionOf(programs.server) }, did }
}

async function versionOf(program: string): Promise<string> {
  const { exitCode, stdout, tail } = await runCommand({ command: program, args: ['--version'], timeoutMs: 20_000 })
  const version = /(\d+\.\d+\.\d+)/.exec(stdout)?.[1]
  if (exitCode === 0 && version !== undefined) return version
  throw new LonghaulError({
    code: 'Stack.SetupFailed',
    message: `Expected ${program} to answer --version with a release of the Temporal server, it said: ${tail}. Remove the file and run this again.`,
  })
}

function withoutGo({ reason, wanted }: { reason: string; wanted: string }): LonghaulError {
  return new LonghaulError({
    code: 'Stack.SetupFailed',
    message: [
      `No Temporal server for PostgreSQL: it is not in the cache, and ${reason}.`,
      'One of these helps:',
      `  - install Go ${wanted} or newer (https://go.dev/dl); Longhaul then builds the server once, in a few minutes`,
      '  - run the containers of infra/temporal/compose.yaml and set TEMPORAL_ADDRESS (docs/cluster.md)',
      '  - leave out --temporal: the development server keeps runs in a file of this machine',
    ].join('\n'),
  })
}
