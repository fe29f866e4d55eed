import { mkdir, readdir, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { RUN_PROFILES } from '../../../src/grading/profiles/run-profiles.ts'
import { requireCommand, runCommand } from '../../../src/platform/run-command.ts'
import { stackPaths } from '../../../src/stack/paths.ts'
import { ensurePythonEnv } from '../../../src/stack/setup/python-env.ts'
import { locateHarness } from '../../../test/support/grading-oracle/oracle.ts'
import type { RunInput, Runner } from './runner.types.ts'

const PEER = join(import.meta.dirname, 'inspect_peer.py')

/** Inspect with its docker sandbox; `compose` is the Docker Compose 2 program, or null if the docker client includes it. */
export async function inspectRunner({ compose }: { compose: string | null }): Promise<Runner> {
  const composeVersion = await versionOfCompose(compose)
  const { value: python } = await ensurePythonEnv({
    cacheDir: stackPaths().cacheDir,
    context: { signal: AbortSignal.timeout(1_200_000), log: (line) => console.error(line) },
    packages: {
      lockFile: join(import.meta.dirname, 'inspect.lock'),
      what: 'Inspect, to race with',
      takes: 'about a minute',
      pipOptions: ['--no-deps'],
    },
  })
  const { folder: harness } = await locateHarness('swebench-4.1')
  const program = join(dirname(python), 'inspect')
  const environmentOf = ({ folder, engineHost, modelUrl }: RunInput): NodeJS.ProcessEnv => ({
    ...process.env,
    DOCKER_HOST: engineHost,
    DOCKER_CONFIG: join(folder, 'docker'),
    XDG_DATA_HOME: join(folder, 'data'),
    XDG_CACHE_HOME: join(folder, 'cache'),
    SCRIPTED_API_KEY: 'none',
    SCRIPTED_BASE_URL: modelUrl,
    PEERS_JOB: join(folder, 'job.json'),
    PEERS_HARNESS: harness,
    PEERS_HARNESS_PACKAGE: join(import.meta.dirname, '../../../test/support/grading-oracle'),
  })
  return {
    name: 'inspect',
    versions: { 'inspect-ai': '0.3.285', swebench: '4.1.0', compose: composeVersion },
    notes: [
      'its check of the engine’s version (24.0.6) is left out',
      'it grades in the container of the agent, as inspect_evals does: no second one is made',
    ],
    endings: [{ tool: 'submit', arguments: { answer: 'done' } }],
    async prepare({ folder, tasks }) {
      await mkdir(join(folder, 'docker/cli-plugins'), { recursive: true })
      await writeFile(join(folder, 'docker/config.json'), '{}\n')
      if (compose !== null) await symlink(compose, join(folder, 'docker/cli-plugins/docker-compose'))
      const job = tasks.map(({ task, row }) => ({
        id: task.taskId,
        statement: task.statement,
        image: task.image,
        repo: row['repo'],
        version: row['version'],
        failToPass: task.failToPass,
        passToPass: task.passToPass,
        script: RUN_PROFILES['swebench-4.1'].plan(task, { hasPatch: true }).evalScript,
      }))
      await writeFile(join(folder, 'job.json'), JSON.stringify({ tasks: job }))
    },
    start: async () => undefined,
    async play(input, again) {
      const { folder, workers, run } = input
      const logs = join(folder, 'logs')
      const limits = ['--max-samples', String(workers), '--max-sandboxes', String(workers), '--log-buffer', '1']
      const common = ['--log-dir', logs, '--display', 'plain', ...limits]
      const args = again
        ? ['eval-retry', ...(await logsIn(logs)), ...common]
        : ['eval', `${PEER}@peers`, '--model', 'openai-api/scripted/scripted', ...common]
      await run({ command: program, args, env: environmentOf(input), cwd: folder })
    },
    async verdicts(input) {
      const { stdout } = await requireCommand({
        what: 'Reading the logs of Inspect',
        command: python,
        args: [PEER, join(input.folder, 'logs')],
        env: environmentOf(input),
        timeoutMs: 120_000,
      })
      return new Map(Object.entries(JSON.parse(stdout) as Record<string, string>))
    },
    stop: async () => undefined,
  }
}

/** Logs that the killed run left. */
async function logsIn(folder: string): Promise<string[]> {
  const names = await readdir(folder)
  return names.filter((name) => name.endsWith('.eval')).map((name) => join(folder, name))
}

async function versionOfCompose(program: string | null): Promise<string> {
  const { exitCode, stdout } = await runCommand({
    command: program ?? 'docker',
    args: [...(program === null ? ['compose'] : []), 'version', '--short'],
    timeoutMs: 20_000,
  })
  if (exitCode === 0) return stdout.trim()
  throw new Error(
    'Inspect’s sandbox needs Docker Compose 2.21 or newer: install it as a plugin of the docker client, or name the program with --compose FILE',
  )
}
