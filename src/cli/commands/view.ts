import { basename, dirname, join, resolve } from 'node:path'
import type { Command } from 'commander'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { isRunName } from '../../contracts/keys.ts'
import { isDirectory } from '../../platform/files.ts'
import { createDirectoryStore } from '../../adapters/artifacts/directory-store.ts'
import { requireKnownRun } from '../../activities/run/run-names.ts'
import { examples, jsonOption, port } from '../arguments/options.ts'
import type { CommandContext } from '../command-context.ts'
import { connectToServer, openStore } from '../local-stack.ts'
import { untilInterrupted } from '../output/console.ts'

export function addView(program: Command, context: CommandContext): void {
  program
    .command('view')
    .argument(
      '[run|directory]',
      'name of a run, a directory of artifacts, or a run’s directory in it (default: all runs)',
    )
    .description('read runs and trajectories in a browser, live while they are played')
    .option(
      '--port <n>',
      'port on loopback (default: the one that runs link to in the Temporal UI, else any free one)',
      port({ min: 0 }),
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `\nServes 127.0.0.1 only, until Ctrl-C. The address holds a random token: a reader who has it can read the runs.\n${examples(
        'longhaul view',
        'longhaul view demo-2026-11-20-a',
        'longhaul view ./artifacts',
      )}`,
    )
    .action((given: string | undefined, options: ViewOptions) => view(given, options, context))
}

interface ViewOptions {
  port?: number
  json?: true
}

async function view(
  given: string | undefined,
  { port, json }: ViewOptions,
  { console }: CommandContext,
): Promise<void> {
  const { store, run, isOwn } = await openView(given)
  // Loaded here: few commands need a server or the pages.
  const { loadAssets } = await import('../../viewer/assets.ts')
  const { serveViewer } = await import('../../viewer/serve.ts')
  if (run !== null) await requireKnownRun(store, run)
  const { temporalSource } = await import('../run-source.ts')
  // Another store may have a run with the same name as one of this server.
  const source = isOwn ? temporalSource(connectToServer) : null
  // Links of the stack's runs must not open another store.
  const asked = port ?? (isOwn ? linkedPort() : null)
  const viewer = await serveViewer({
    store,
    assets: await loadAssets(),
    ...(source === null ? {} : { source }),
    ...(asked === null ? {} : { port: asked }),
    elseAnyPort: port === undefined,
  })
  const url = run === null ? viewer.url : `${viewer.url}#/run/${encodeURIComponent(run)}`
  if (json === true) console.record({ event: 'viewer', url })
  else {
    console.out(url)
    console.err('Ctrl-C ends the viewer.')
  }
  await untilInterrupted(async (signal) => {
    // Waits for the signal, since the process exits soon after the command's end even with an open server.
    const { promise, resolve } = Promise.withResolvers<void>()
    signal.addEventListener('abort', () => resolve(), { once: true })
    await promise
    await viewer.close()
    await source?.close()
    signal.throwIfAborted()
  })
}

/** Port of the address that runs link to; null unless that is on this machine's loopback. */
function linkedPort(env: NodeJS.ProcessEnv = process.env): number | null {
  const url = URL.parse(env['LONGHAUL_VIEWER_URL'] ?? '')
  const isHere = url?.protocol === 'http:' && (url.hostname === '127.0.0.1' || url.hostname === 'localhost')
  return isHere && url.port !== '' ? Number(url.port) : null
}

interface OpenedView {
  store: ArtifactStore
  run: string | null
  /** Whether `store` is the one that every command uses. */
  isOwn: boolean
}

/** Opens a directory if one has that name; else a run of the store that every command uses. */
async function openView(given: string | undefined): Promise<OpenedView> {
  if (given === undefined) return { store: await openStore(), run: null, isOwn: true }
  const path = resolve(given)
  if (!(await isDirectory(path))) {
    // No run's name contains a slash.
    if (given.includes('/')) throw new LonghaulError({ code: 'Config.NotFound', message: `No directory is at ${path}` })
    if (!isRunName(given)) throw notViewable(given, 'no run can have that name, and no directory has it')
    return { store: await openStore(), run: given, isOwn: true }
  }
  if (await isDirectory(join(path, 'runs')))
    return { store: createDirectoryStore({ root: path, checksWriting: false }), run: null, isOwn: false }
  if (basename(dirname(path)) === 'runs') {
    return {
      store: createDirectoryStore({ root: dirname(dirname(path)), checksWriting: false }),
      run: basename(path),
      isOwn: false,
    }
  }
  if (!isRunName(basename(path)) || given === '') throw notViewable(given, 'it is another directory')
  // Any directory may have the name of a run.
  const store = await openStore()
  if ((await store.folders('runs/')).includes(basename(path))) return { store, run: basename(path), isOwn: true }
  throw notViewable(given, 'it is another directory')
}

function notViewable(given: string, why: string): LonghaulError {
  return new LonghaulError({
    code: 'Config.NotFound',
    message: `Expected ${JSON.stringify(given)} to be a run, a directory of artifacts (it has a directory "runs") or a run’s directory below "runs"; ${why}`,
  })
}
