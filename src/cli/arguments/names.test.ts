/** A name that nobody can have is refused before anything is asked: neither a server nor a store is there in these tests. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import type { Command } from 'commander'
import { longhaul } from '../../../test/support/command-line.ts'
import { useEnvironment, withoutStack } from '../../../test/support/environment.ts'
import { createProgram } from '../program.ts'

const OUT = join(tmpdir(), 'longhaul-names-never-written')
const NAMES = [
  '',
  ' ',
  'a b',
  '../no-such-neighbour',
  'a/b',
  '.',
  '..',
  '/',
  'a\nb',
  'x\u0000',
  'ä',
  'a'.repeat(300),
  '$(id)',
  "x' OR '1'='1",
]
/** Ids of workflows that were started from the Temporal UI may have any characters. */
const IDS = [
  '',
  ' ',
  ' a',
  '../no-such-neighbour',
  'train/',
  'train//x',
  '/x',
  '.',
  '..',
  'a/../b',
  'a\nb',
  'x\u0000',
  'a'.repeat(1_001),
  'ä'.repeat(501),
]

/** A directory may be viewed, whatever it is called. */
const isDirectory = (name: string): boolean => ['.', '..', '/'].includes(name)

/** By command: a command line with NAME for the name. */
const LINES: Readonly<Record<string, readonly (readonly [names: readonly string[], line: string])[]>> = {
  'run status': [
    [IDS, 'NAME'],
    [IDS, 'NAME --follow --json'],
  ],
  'run blockers': [[IDS, 'NAME']],
  'run pause': [[IDS, 'NAME --hard --dry-run']],
  'run resume': [[IDS, 'NAME']],
  'run set-limits': [[IDS, 'NAME --concurrency 3']],
  'run requeue': [
    [IDS, 'NAME a__b-1'],
    [NAMES, 'a-run NAME'],
  ],
  'run cancel': [[IDS, 'NAME']],
  'run stop': [
    [IDS, 'NAME --now'],
    [IDS, 'NAME --after-iteration 2'],
  ],
  'run remove': [
    [NAMES, 'NAME'],
    [NAMES, 'NAME --dry-run'],
  ],
  wait: [[IDS, 'NAME']],
  'host drain': [
    [[...NAMES, 'a:b', 'node.7'], 'NAME'],
    [NAMES, 'NAME --move'],
  ],
  'host uncordon': [[[...NAMES, 'a:b'], 'NAME']],
  reap: [[[...NAMES, 'a:b'], '--host NAME']],
  'deployment promote': [
    [[...NAMES, 'a:b'], 'NAME'],
    [NAMES, 'NAME --dry-run'],
  ],
  'schedule create': [[[...NAMES, 'a:b', 'longhaul-alarms'], 'NAME --recipe mini']],
  'schedule pause': [[[...NAMES, 'a:b'], 'NAME']],
  'schedule resume': [[NAMES, 'NAME']],
  'schedule backfill': [[NAMES, 'NAME --from 2026-11-20T00:00:00Z --to 2026-11-22T00:00:00Z']],
  'schedule trigger': [[NAMES, 'NAME']],
  'schedule delete': [[NAMES, 'NAME --json']],
  regrade: [
    [NAMES, 'NAME'],
    [NAMES, 'a-run --stage NAME'],
    [NAMES, 'a-run --run NAME'],
  ],
  report: [
    [NAMES, 'NAME'],
    [NAMES, `NAME --static ${OUT}`],
  ],
  track: [[NAMES, 'NAME']],
  'ledger verify': [[NAMES, 'NAME']],
  export: [[[...NAMES, 'a:', ':a', 'a:b:c', 'a:../b'], `NAME --format csv --out ${OUT}`]],
  predictions: [
    [NAMES, `NAME --out ${OUT}`],
    [NAMES, `a-run --stage NAME --out ${OUT}`],
  ],
  compare: [
    [[...NAMES, 'a:', 'a:b:c'], 'NAME a:b'],
    [NAMES, 'a:b NAME'],
  ],
  'tasks difficulty': [
    [NAMES, 'NAME'],
    [NAMES, 'a-run NAME'],
    [NAMES, 'a-run --stage NAME'],
    [NAMES, 'a-run --policy NAME'],
  ],
  view: [[NAMES.filter((name) => !isDirectory(name)), 'NAME']],
  publish: [[NAMES, 'NAME --to a/b --dry-run']],
  'policy-server check': [[NAMES, 'NAME --kind vllm --url http://127.0.0.1:1']],
  train: [
    [NAMES, '--run NAME'],
    [NAMES, '--recipe NAME'],
  ],
  evaluate: [
    [NAMES, '--run NAME'],
    [NAMES, '--policy NAME'],
    [[...NAMES, 'a:'], '--baseline NAME'],
  ],
  'tasks gate': [[NAMES, 'demo --run NAME']],
}

async function withoutServer(t: TestContext): Promise<void> {
  const home = await mkdtemp(join(tmpdir(), 'longhaul-names-'))
  t.after(() => rm(home, { recursive: true }))
  useEnvironment(t, {
    ...withoutStack(),
    LONGHAUL_TEMPORAL_ADDRESS: '127.0.0.1:1',
    LONGHAUL_ARTIFACTS: join(home, 'absent'),
    LONGHAUL_HOME: home,
  })
}

for (const [command, lines] of Object.entries(LINES)) {
  test(`longhaul ${command}: a name that nothing can have is a usage error, with no server and no store`, async (t) => {
    await withoutServer(t)
    for (const [names, line] of lines) {
      for (const name of names) {
        const words = line.split(' ').map((word) => (word === 'NAME' ? name : word))
        const { exitCode, stderr } = await longhaul(...command.split(' '), ...words)
        const said = `${command} ${JSON.stringify(words)}: ${stderr}`
        assert.equal(exitCode, 1, said)
        assert.match(stderr, /^error[^\n]*(Expected|No directory|No recipe)/, said)
        assert.doesNotMatch(stderr, /Temporal\.|Unexpected|artifact store is at|\n\s+at /, said)
      }
    }
  })
}

/** Arguments that are names, of whatever kind. */
const NAME_ARGUMENTS = [
  'run',
  'runs',
  'run[:stage]',
  'run|directory',
  'task',
  'host',
  'build',
  'id',
  'policy',
  'version',
  'before',
]

test('every command that takes a name has its lines above', async () => {
  const program = await createProgram({
    console: { out() {}, err() {}, record() {}, command() {}, terminal: null },
    exit() {},
  })
  const missing: string[] = []
  const look = (command: Command, path: string[]): void => {
    const name = path.join(' ')
    const takesName = command.registeredArguments.some((argument) => NAME_ARGUMENTS.includes(argument.name()))
    if (takesName && LINES[name] === undefined) missing.push(name)
    for (const child of command.commands) look(child, [...path, child.name()])
  }
  look(program, [])
  assert.deepEqual(missing, [])
})
