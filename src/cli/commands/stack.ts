import { type Command, Option } from 'commander'
import type { DownResult } from '../../stack/down.ts'
import { WORKER_ROLES, type WorkerRole } from '../../stack/services.ts'
import type { CommandContext } from '../command-context.ts'
import { untilInterrupted } from './interrupts.ts'
import { examples, jsonOption } from '../arguments/options.ts'

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
