import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { createDirectoryStore } from '../../../src/adapters/artifacts/directory-store.ts'
import type { VerdictRecord } from '../../../src/contracts/episodes.types.ts'
import { episodeKeys } from '../../../src/contracts/keys.ts'
import { packageVersion } from '../../../src/platform/code-version.ts'
import { packageFile, stackPaths } from '../../../src/stack/paths.ts'
import { episodesOf } from '../../../test/support/run-records.ts'
import type { RunInput, Runner } from './runner.types.ts'

/** The command line as users call it. It starts the stack (Temporal, four workers, their supervisor), whose cost is included. */
export function longhaulRunner(): Runner {
  let workflowId = ''
  const cli = async (input: RunInput, ...args: string[]): Promise<string> =>
    input.run({
      command: process.execPath,
      args: [packageFile('bin/longhaul.mjs'), ...args],
      env: environmentOf(input),
      cwd: input.folder,
    })
  return {
    name: 'longhaul',
    versions: { longhaul: packageVersion() },
    notes: [
      'gates, which prove a task once, are left out: the peers have none',
      'each patch that resolves and whose runner is pytest or Django is audited in a container of its own',
    ],
    endings: [{ command: 'submit' }],
    async prepare(input) {
      const rows = join(input.folder, 'rows.jsonl')
      await writeFile(rows, input.tasks.map(({ row }) => `${JSON.stringify(row)}\n`).join(''))
      await writeFile(join(input.folder, 'peers.yaml'), recipeOf(input))
      await cli(input, 'tasks', 'import', rows, '--output', join(input.folder, 'suite.jsonl'))
      await cli(input, 'up', '--json')
      const suite = join(input.folder, 'suite.jsonl')
      await cli(input, 'tasks', 'gate', suite, '--repeats', '1', '--json', '-c', 'grading.unauditedRewards=allow')
      await cli(input, 'down')
    },
    start: async (input) => void (await cli(input, 'up', '--json')),
    async play(input, again) {
      if (!again) {
        const recipe = join(input.folder, 'peers.yaml')
        const said = await cli(input, 'evaluate', '--recipe', recipe, '--policy', 'base', '--detach', '--json')
        workflowId = (JSON.parse(said.trim().split('\n')[0] ?? '{}') as { workflowId?: string }).workflowId ?? ''
        if (workflowId === '') throw new Error(`longhaul evaluate said no workflow: ${said}`)
      }
      await cli(input, 'wait', workflowId, '--json')
    },
    async verdicts({ folder }) {
      const paths = stackPaths({ name: NAME, home: join(folder, 'home') })
      const store = createDirectoryStore({ root: paths.artifactsDir })
      const verdicts = new Map<string, string | null>()
      for (const { episode, taskId } of await episodesOf(store, workflowId.replace(/^eval\//, ''))) {
        const verdict = await store.readRecord<VerdictRecord>(episodeKeys.verdict(episode))
        verdicts.set(taskId, verdict?.kind ?? null)
      }
      return verdicts
    },
    stop: async (input) => void (await cli(input, 'down')),
  }
}

const NAME = 'peers'

function environmentOf({ folder, engineHost }: RunInput): NodeJS.ProcessEnv {
  const foreign = /^(LONGHAUL_(?!CACHE$)|TEMPORAL_|CI$|GITHUB_|GITLAB_)/
  const mine = Object.entries(process.env).filter(([name]) => !foreign.test(name))
  return {
    ...Object.fromEntries(mine),
    LONGHAUL_HOME: join(folder, 'home'),
    LONGHAUL_STACK: NAME,
    LONGHAUL_POLICY_URL: 'http://127.0.0.1:9',
    DOCKER_HOST: engineHost,
  }
}

function recipeOf({ folder, modelUrl, tasks, turns, workers }: RunInput): string {
  const source = { kind: 'rows', path: join(folder, 'suite.jsonl'), limit: tasks.length }
  return stringify({
    model: { base: 'scripted' },
    data: { train: source, heldOut: source, gate: { repeats: 1 } },
    scaffold: { profile: 'paper' },
    rollout: { maxOpenEpisodes: workers },
    evaluate: { tasks: tasks.length, attempts: 1, maxTurns: turns + 2, context: 60_000 },
    grading: { unauditedRewards: 'allow' },
    policyServer: { kind: 'chat', url: modelUrl, chat: { apiKeyVariable: 'LONGHAUL_STACK', requestTimeoutS: 60 } },
  })
}
