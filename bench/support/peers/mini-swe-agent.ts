import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { stackPaths } from '../../../src/stack/paths.ts'
import { ensurePythonEnv } from '../../../src/stack/setup/python-env.ts'
import { harnessPython, locateHarness } from '../../../test/support/grading-oracle/oracle.ts'
import type { RunInput, Runner } from './runner.types.ts'

const MODEL = 'openai/scripted'
const RUN = 'peers'

/** mini-swe-agent's batch runner with its own configuration for SWE-bench. It does not grade, so swebench 4.1.0 grades in its own
 *  containers. */
export async function miniSweAgentRunner(): Promise<Runner> {
  const { value: python } = await ensurePythonEnv({
    cacheDir: stackPaths().cacheDir,
    context: { signal: AbortSignal.timeout(1_200_000), log: (line) => console.error(line) },
    packages: {
      lockFile: join(import.meta.dirname, 'mini-swe-agent.lock'),
      what: 'mini-swe-agent, to race with',
      takes: 'about a minute',
      pipOptions: ['--no-deps'],
    },
  })
  const { folder: harness } = await locateHarness('swebench-4.1')
  const grader = await harnessPython()
  return {
    name: 'mini-swe-agent',
    versions: { 'mini-swe-agent': '2.4.6', swebench: '4.1.0' },
    notes: ['containers of agents without a network, as the engine has none'],
    endings: [
      { command: 'git add -A && git diff --cached >/tmp/patch.txt' },
      { command: 'echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat /tmp/patch.txt' },
    ],
    async prepare({ folder, tasks, modelUrl }) {
      await mkdir(join(folder, 'rows'), { recursive: true })
      const rows = tasks.map(({ row }) => row)
      await writeFile(join(folder, 'rows/test.jsonl'), rows.map((row) => `${JSON.stringify(row)}\n`).join(''))
      await writeFile(join(folder, 'dataset.json'), JSON.stringify(rows))
      const config = {
        agent: { cost_limit: 0 },
        environment: { run_args: ['--rm', '--network', 'none'] },
        model: { model_name: MODEL, cost_tracking: 'ignore_errors', model_kwargs: { api_base: modelUrl } },
      }
      await writeFile(join(folder, 'peers.yaml'), stringify(config))
    },
    start: async () => undefined,
    async play(input) {
      const { folder, workers, run } = input
      await run({
        command: python,
        args: [
          ['-m', 'minisweagent.run.benchmarks.swebench', '--subset', join(folder, 'rows'), '--split', 'test'],
          ['-o', join(folder, 'out'), '-w', String(workers), '-c', 'swebench.yaml', '-c', join(folder, 'peers.yaml')],
        ].flat(),
        env: environmentOf(input),
        cwd: folder,
      })
      const predictions = join(folder, 'out/preds.json')
      const job = { dataset: join(folder, 'dataset.json'), workers, runs: [{ id: RUN, predictions, timeout: 1800 }] }
      await writeFile(join(folder, 'job.json'), JSON.stringify(job))
      await run({
        command: grader,
        args: [HARNESS, 'swebench-4.1', harness, join(folder, 'job.json')],
        env: { ...environmentOf(input), PYTHONUTF8: '1' },
        cwd: folder,
      })
    },
    async verdicts({ folder, tasks }) {
      const logs = join(folder, 'logs/run_evaluation', RUN, MODEL.replace('/', '__'))
      const found = tasks.map(async ({ task: { taskId } }) => {
        const text = await readFile(join(logs, taskId, 'report.json'), 'utf8').catch(() => null)
        if (text === null) return [taskId, null] as const
        const report = (JSON.parse(text) as Record<string, { resolved: boolean }>)[taskId]
        return [taskId, report?.resolved === true ? 'resolved' : 'unresolved'] as const
      })
      return new Map(await Promise.all(found))
    },
    stop: async () => undefined,
  }
}

const HARNESS = join(import.meta.dirname, '../../../test/support/grading-oracle/harness.py')

function environmentOf({ folder, engineHost }: RunInput): NodeJS.ProcessEnv {
  return {
    ...process.env,
    DOCKER_HOST: engineHost,
    MSWEA_SILENT_STARTUP: '1',
    MSWEA_CONFIGURED: 'true',
    MSWEA_GLOBAL_CONFIG_DIR: join(folder, 'settings'),
    OPENAI_API_KEY: 'none',
    LITELLM_LOCAL_MODEL_COST_MAP: 'True',
    HF_HOME: join(folder, 'hub'),
    HF_HUB_OFFLINE: '1',
  }
}
