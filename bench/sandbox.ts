/**
 * The cost of a sandbox: one command, one start, many sandboxes concurrently.
 *
 *   npm run bench:sandbox -- [--rounds 10] [--list-rounds 1] [--crowd-seconds 20] [--peers DIR] [--json] [--out bench/results/sandbox.json]
 *
 * Overhead of a command: wall time of a trivial command (`true`, `pwd`, `echo hello`, …) as its caller sees it, including the start
 * of the shell and the whole journal. `ours` is a turn of a sandbox host, `dockerCli` is `docker exec` as a process, `engineApi` the
 * same by two requests to the engine. All run one recorded list of commands in containers of one image, interleaved. `--peers DIR` is
 * a Python environment with mini-swe-agent or SWE-ReX (`python3 -m venv DIR && DIR/bin/pip install mini-swe-agent swe-rex`); a
 * missing one is left out. Exit status, output and deadline of every command are checked for every rival; a rival that fails a check
 * is dropped, and `details.dropped` has the reason. Exit 1 if that is ours, 2 if nothing was compared.
 *
 * Prints milliseconds: `{"ours": {"p50", "p95"}, "dockerCli": …, "engineApi": …, "miniSweAgent"?: …, "sweRex"?: …}`, and under
 * `details` the medians by kind of command, the time until a sandbox is ready compared with a bare container, 16 sandboxes with two
 * random commands a second each compared with one, and CPU and memory for 1,000 commands. `--rounds` repeats the trivial commands,
 * `--list-rounds` the others (0 leaves them out), `--crowd-seconds` is the time for which one sandbox, and then all of them, get
 * commands. Needs an engine (DOCKER_HOST) and the `docker` client; without an engine the project's own is started.
 */
import { writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'

import { benchArguments } from './support/arguments.ts'
import { conclude, endWith2OnError } from './support/conclude.ts'
import { interruption } from './support/interruption.ts'
import { type SandboxBed, makeBed } from './support/sandbox-bed.ts'
import {
  type Overheads,
  measureCost,
  measureCrowd,
  measureOverheads,
  measureReadiness,
} from './support/sandbox-measures.ts'
import { type Rival, dockerCli, engineApi, ours, peer } from './support/sandbox-rivals.ts'
import { versions } from './support/versions.ts'

endWith2OnError()
const { values } = benchArguments({
  options: {
    rounds: { type: 'string', default: '10' },
    'list-rounds': { type: 'string', default: '1' },
    'crowd-seconds': { type: 'string', default: '20' },
    peers: { type: 'string' },
    json: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
})
const rounds = Number(values.rounds)
const listRounds = Number(values['list-rounds'])
const crowdSeconds = Number(values['crowd-seconds'])
if (!Number.isInteger(rounds) || rounds < 1 || !Number.isInteger(listRounds) || listRounds < 0 || !(crowdSeconds > 0)) {
  console.error('Expected --rounds N with N ≥ 1, --list-rounds N with N ≥ 0 and --crowd-seconds above 0')
  process.exit(1)
}

const bed = await makeBed()
let closing: Promise<void> | null = null
const closeBed = (): Promise<void> => {
  closing ??= bed.close()
  return closing
}
interruption().addEventListener('abort', () => void closeBed().finally(() => process.exit(130)))
try {
  const rivals = await startRivals(bed)
  const { trivial, kinds, checked, dropped } = await measureAndClose(rivals)
  const details = {
    bench: 'sandbox',
    date: new Date().toISOString(),
    ...versions(),
    engine: bed.engine.version,
    loadAverage: loadavg()[0],
    rounds,
    medianMsByKind: kinds,
    checkedCommands: checked,
    dropped,
    readyMs: await measureReadiness({ bed, rounds: 120 }),
    crowdMs: await measureCrowd({ bed, sandboxes: 16, seconds: crowdSeconds }),
    perThousandCommands: await measureCost({ bed, commands: 500 }),
  }
  const result = { ...trivial, details }
  if (values.out !== undefined) writeFileSync(values.out, `${JSON.stringify(result, null, 2)}\n`)
  console.log(values.json ? JSON.stringify(result) : table(result))
  const others = Object.keys(trivial).filter((name) => name !== 'ours').length
  const violations = Object.hasOwn(dropped, 'ours') ? 1 : 0
  process.exitCode = conclude({ compared: { 'commands of ours': checked['ours'] ?? 0, rivals: others }, violations })
} finally {
  await closeBed()
}

async function measureAndClose(rivals: Rival[]): Promise<Overheads> {
  try {
    return await measureOverheads({ rivals, rounds, listRounds })
  } finally {
    for (const rival of rivals) await rival.close()
  }
}

async function startRivals({ engine, host, image, open, createBare }: SandboxBed): Promise<Rival[]> {
  const [cli, api] = [await createBare(), await createBare()]
  await Promise.all([cli.start(), api.start()])
  const rivals = [
    ours({ host, sandbox: await open() }),
    dockerCli({ engine, container: cli }),
    engineApi({ container: api }),
  ]
  const { peers: environment } = values
  if (environment === undefined) return rivals
  const peers = [
    await peer({ name: 'miniSweAgent', environment, engine, image }),
    await peer({ name: 'sweRex', environment, engine, image }),
  ]
  return [...rivals, ...peers.filter((rival) => rival !== null)]
}

function table({
  details,
  ...overheads
}: Record<string, { p50?: number; p95?: number }> & { details: object }): string {
  const lines = Object.entries(overheads).map(([name, { p50, p95 }]) => `${name}\tp50 ${p50} ms\tp95 ${p95} ms`)
  return [...lines, JSON.stringify(details, null, 2)].join('\n')
}
