import { type Command, Option } from 'commander'
import type { DownResult } from '../../stack/down.ts'
import { WORKER_ROLES, type WorkerRole } from '../../stack/services.ts'
import type { CommandContext } from '../command-context.ts'
import { untilInterrupted } from '../output/console.ts'
import { examples, jsonOption } from '../arguments/options.ts'
import { EXIT } from '../output/exit-codes.ts'
import { adoptLocalStack } from '../local-stack.ts'

/** The local stack: up and down. */
export function addStack(program: Command, { console }: CommandContext): void {
  program
    .command('up')
    .description('set up what is missing and start the local stack: Temporal, engine, policy server, workers')
    .addOption(new Option('--roles <roles...>', 'workers to start').choices(WORKER_ROLES))
    .addOption(jsonOption())
    .addHelpText('after', examples('longhaul up', 'TEMPORAL_ADDRESS=temporal:7233 longhaul up --roles sandbox'))
    .action(async ({ roles, json }: { roles?: WorkerRole[]; json?: true }) => {
      const { up } = await import('../../stack/up.ts')
      const { changed, stack, setUpSeconds } = await untilInterrupted((signal) =>
        up({ ...(roles === undefined ? {} : { roles }), log: (line) => console.err(line), signal }),
      )
      const { facts, services } = stack
      if (json === true) {
        console.record({ changed, setUpSeconds, facts, services: services.map(({ name, state }) => ({ name, state })) })
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
  program
    .command('down')
    .description('stop everything that up started; records and caches stay')
    .addOption(jsonOption())
    .addHelpText('after', examples('longhaul down'))
    .action(async ({ json }: { json?: true }) => {
      const result = await stopLocalStack()
      if (json === true) console.record(result)
      else console.out(describeDown(result))
    })
}

export async function stopLocalStack(): Promise<DownResult> {
  const { down } = await import('../../stack/down.ts')
  return down()
}

export function describeDown(result: DownResult): string {
  if (!result.changed) return `nothing of stack "${result.name}" was running`
  const containers = result.containersRemoved === 0 ? '' : `, removed ${result.containersRemoved} containers`
  return `stopped ${result.stopped.join(', ') || 'the engine'}${containers}; engine ${result.engine.replaceAll('-', ' ')}`
}

export function describeFacts(facts: {
  temporalAddress: string
  uiUrl: string | null
  policyUrl: string
  artifactsDir: string
}): string[] {
  return [
    `temporal    ${facts.temporalAddress}`,
    ...(facts.uiUrl === null ? [] : [`UI          ${facts.uiUrl}`]),
    `policies    ${facts.policyUrl}`,
    `artifacts   ${facts.artifactsDir}`,
  ]
}

export function addDoctor(program: Command, { console, exit }: CommandContext): void {
  program
    .command('doctor')
    .description('check what would keep a run from working on this machine; changes nothing')
    .addOption(jsonOption())
    .addHelpText('after', examples('longhaul doctor', 'longhaul doctor --json | jq .level'))
    .action(async ({ json }: { json?: true }) => {
      const { doctor, doctorLines } = await import('../../stack/doctor/doctor.ts')
      const result = await doctor()
      if (json === true) console.record(result)
      else console.out(doctorLines(result).join('\n'))
      if (result.level === 'fail') exit(EXIT.infra)
    })
}

/** As `src/workers/run-worker.ts` names them; repeated here so that help needs no native module. */
const ROLES = ['control', 'sandbox', 'trainer', 'artifacts', 'all'] as const

export function addWorker(program: Command, _context: CommandContext): void {
  program
    .command('worker')
    .description('run a worker until SIGTERM; longhaul up starts them on one machine, a cluster starts them itself')
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
