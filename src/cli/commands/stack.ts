import { type Command, Option } from 'commander'
import { LonghaulError } from '../../contracts/errors.ts'
import { quoteAddress } from '../../platform/quote-address.ts'
import type { DownResult } from '../../stack/down.ts'
import type { UpResult } from '../../stack/up.ts'
import { WORKER_ROLES, type WorkerRole } from '../../stack/services.ts'
import type { CommandContext } from '../command-context.ts'
import { type Console, untilInterrupted } from '../output/console.ts'
import { whileReporting } from '../output/live-lines.ts'
import { examples, jsonOption, port } from '../arguments/options.ts'
import { adoptLocalStack } from '../local-stack.ts'

export function addUp(program: Command, { console }: CommandContext): void {
  program
    .command('up')
    .description('set up what is missing and start the local stack: Temporal, engine, policy server, workers')
    .addOption(new Option('--roles <roles...>', 'workers to start').choices(WORKER_ROLES))
    .option(
      '--temporal <store>',
      'where Temporal keeps the runs of this stack: development (a file), postgres (brought by the stack) or postgres://USER@HOST/DATABASE; later starts remember it',
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples(
        'longhaul up',
        'longhaul up --temporal postgres',
        'TEMPORAL_ADDRESS=temporal:7233 longhaul up --roles sandbox',
      ),
    )
    .action(async ({ roles, temporal, json }: { roles?: WorkerRole[]; temporal?: string; json?: true }) => {
      const { changed, differs, stack, setUpSeconds } = await startLocalStack({
        console,
        temporal,
        ...(roles === undefined ? {} : { roles }),
      })
      const { facts, services } = stack
      if (json === true) {
        console.record({
          changed,
          differs,
          setUpSeconds,
          facts,
          services: services.map(({ name, state }) => ({ name, state })),
        })
        return
      }
      console.out(
        [
          `stack "${facts.name}" ${changed ? `is up (set-up ${setUpSeconds.toFixed(1)} s)` : 'was up already'}`,
          ...describeFacts(facts),
          `services    ${services.map(({ name }) => name).join(', ')}`,
          'stop it     longhaul down',
        ].join('\n'),
      )
    })
}

export function addDown(program: Command, { console }: CommandContext): void {
  program
    .command('down')
    .description('stop everything that up started; records and caches stay')
    .addOption(jsonOption())
    .addHelpText('after', examples('longhaul down'))
    .action(async ({ json }: { json?: true }) => {
      const what = (): string => 'stopping the processes of the stack and removing its containers'
      const result = await whileReporting({ console, what }, stopLocalStack)
      if (json === true) console.record(result)
      else console.out(describeDown(result))
    })
}

/** Sets up and starts the stack, showing its progress; Ctrl-C cleans up. */
export async function startLocalStack({
  console,
  roles,
  temporal,
}: {
  console: Console
  roles?: readonly WorkerRole[]
  temporal?: string | undefined
}): Promise<UpResult> {
  const [{ up }, { describeBoard, emptyBoard }] = await Promise.all([
    import('../../stack/up.ts'),
    import('../../stack/steps.ts'),
  ])
  const board = emptyBoard()
  const what = (): string => describeBoard(board, Date.now())
  return untilInterrupted((signal) =>
    whileReporting({ console, what }, ({ note }) =>
      up({ ...(roles === undefined ? {} : { roles }), temporal, checkWorkers, log: note, signal, board }),
    ),
  )
}

async function checkWorkers(env: NodeJS.ProcessEnv, roles: readonly WorkerRole[]): Promise<void> {
  const [{ readWorkerEnvironment }, { requireUsable }, { openArtifactStore }] = await Promise.all([
    import('../../workers/worker-environment.ts'),
    import('../../workers/require-usable.ts'),
    import('../../adapters/artifacts/open-store.ts'),
  ])
  const environment = readWorkerEnvironment(env)
  await requireUsable(roles, environment)
  await openArtifactStore({ location: environment.artifacts, check: true })
}

export async function stopLocalStack(): Promise<DownResult> {
  const { down } = await import('../../stack/down.ts')
  return down()
}

export function describeDown(result: DownResult): string {
  if (!result.changed) return `nothing of stack "${result.name}" was running`
  if (result.forgotten !== null)
    return `forgot what ${result.forgotten} ran of stack "${result.name}"; nothing was stopped`
  const containers = result.containersRemoved === 0 ? '' : `, removed ${result.containersRemoved} containers`
  return `stopped ${result.stopped.join(', ') || 'the engine'}${containers}; engine ${result.engine.replaceAll('-', ' ')}`
}

export function describeFacts(facts: {
  temporalAddress: string
  temporalStore?: string
  uiUrl: string | null
  policyUrl: string
  artifactsDir: string
}): string[] {
  return [
    `temporal    ${facts.temporalAddress}`,
    ...(facts.temporalStore === undefined ? [] : [`runs in     ${facts.temporalStore}`]),
    ...(facts.uiUrl === null ? [] : [`UI          ${facts.uiUrl}`]),
    `policies    ${facts.policyUrl}`,
    `artifacts   ${facts.artifactsDir}`,
  ]
}

/** The roles of `src/workers/run-worker.ts`, repeated here so that help loads no native module. */
export const ROLES = ['control', 'sandbox', 'trainer', 'artifacts', 'all'] as const

export function addWorker(program: Command, _context: CommandContext): void {
  program
    .command('worker')
    .description('run a worker until SIGTERM; on a single machine longhaul up starts all of them')
    .addOption(new Option('--role <role>', 'what it serves').choices(ROLES).makeOptionMandatory())
    .addHelpText(
      'after',
      examples(
        'longhaul worker --role control',
        'TEMPORAL_ADDRESS=temporal:7233 LONGHAUL_ARTIFACTS=/mnt/longhaul longhaul worker --role sandbox',
      ),
    )
    .action(async ({ role }: { role: (typeof ROLES)[number] }) => {
      await adoptLocalStack()
      const { runWorker } = await import('../../workers/run-worker.ts')
      await runWorker({ role })
    })
}

export function addCodecServer(program: Command, { console }: CommandContext): void {
  program
    .command('codec-server')
    .description('decode encrypted payloads for the Temporal UI and CLI, with the keys of LONGHAUL_CODEC_KEYS')
    .option('--host <address>', 'where to listen; beyond the loopback LONGHAUL_CODEC_TOKEN is required', '127.0.0.1')
    .option('--port <number>', 'where to listen; 0 takes a free port', port({ min: 0 }), 8081)
    .option('--origin <url...>', 'pages that may send requests: the address of the Temporal UI', [
      'http://127.0.0.1:8233',
    ])
    .addHelpText(
      'after',
      examples(
        'LONGHAUL_CODEC_KEYS=/etc/longhaul/codec-keys longhaul codec-server',
        'longhaul codec-server --origin https://cloud.temporal.io',
      ),
    )
    .action(async (given: { host: string; port: number; origin: string[] }) => {
      const origin = given.origin.map(requireOrigin)
      const { startCodecServer } = await import('../../stack/codec-server.ts')
      const token = process.env['LONGHAUL_CODEC_TOKEN'] ?? ''
      const settings = { host: given.host, port: given.port, origins: origin, token: token === '' ? null : token }
      const { url, server } = await startCodecServer(settings)
      console.out(`codec server at ${url}, for pages of ${origin.join(', ')}`)
      await untilInterrupted((signal) => new Promise((resolve) => signal.addEventListener('abort', resolve))).catch(
        () => undefined,
      )
      server.closeAllConnections()
      server.close()
    })
}

/** As browsers spell it, so that it equals their header. `null` would be any page in a sandboxed frame. */
function requireOrigin(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null
  const isOrigin =
    url !== null && /^https?:$/.test(url.protocol) && [url.origin, `${url.origin}/`].includes(text.toLowerCase())
  if (isOrigin) return url.origin
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected --origin to be the scheme, host and port of a page, as http://127.0.0.1:8233, got ${quoteAddress(text)}`,
  })
}
