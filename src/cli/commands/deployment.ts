import type { Command } from 'commander'
import { type DeploymentLook, lookAtDeployment, promoteBuild } from '../../client/index.ts'
import type { CommandContext } from '../command-context.ts'
import { buildName, examples, jsonOption } from '../arguments/options.ts'
import { withConnection } from '../local-stack.ts'

export function addDeployment(program: Command, { console }: CommandContext): void {
  const deployment = program.command('deployment').description('change the build of the control workers during runs')
  deployment
    .command('status')
    .description('list the builds of the control workers (LONGHAUL_BUILD_ID) and the open work of each')
    .addOption(jsonOption())
    .action(async ({ json }: { json?: true }) => {
      await withConnection(async (connection) => {
        const look = await lookAtDeployment(connection)
        if (json === true) console.record({ ...look })
        else console.out(describeDeployment(look))
      })
    })
  deployment
    .command('promote')
    .argument('<build>', 'the LONGHAUL_BUILD_ID of its workers', buildName)
    .description('start new work in this build; open groups and episodes finish in the build that started them')
    .option('--dry-run', 'say what would change, and change nothing')
    .addOption(jsonOption())
    .addHelpText('after', examples('longhaul deployment promote 2026-11-23-1a2b3c4'))
    .action(async (build: string, { dryRun = false, json }: { dryRun?: boolean; json?: true }) => {
      await withConnection(async (connection) => {
        const answer = await promoteBuild({ connection, build, dryRun })
        if (json === true) console.record({ ...answer, dryRun })
        else if (!answer.changed) console.out(`${build} is the current build already`)
        else {
          const before = answer.previous === null ? 'workers without a build' : answer.previous
          console.out(`new work ${dryRun ? 'would begin' : 'begins'} in ${build}, no longer in ${before}`)
        }
      })
    })
}

function describeDeployment({ builds, current }: DeploymentLook): string {
  if (builds.length === 0) return 'no control worker has a build: set LONGHAUL_BUILD_ID where they start'
  const lines = builds.map(({ build, status, openHere }) => {
    const may = build !== current && openHere === 0 && status !== 'inactive' ? '; its workers may be stopped' : ''
    return `${build}  ${status}, ${openHere} open groups and episodes${may}`
  })
  if (current === null) lines.push('no build is current: longhaul deployment promote BUILD')
  return lines.join('\n')
}
