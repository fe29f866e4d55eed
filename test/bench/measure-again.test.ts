import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { test } from 'node:test'
import { measureAgain, planMeasurements } from '../../bench/support/measure-again.ts'
import { MEASURED, type Measured } from '../../bench/support/measured-code.ts'

const root = join(import.meta.dirname, '../..')

test('every bench that is measured again writes the file that it is planned for', () => {
  const names = Object.keys(MEASURED).filter((name) => MEASURED[name]?.minutes !== undefined)
  const needed = Object.values(MEASURED).flatMap(({ needs = [] }) => needs)
  const env = Object.fromEntries(needed.map((variable) => [variable, 'set']))
  const planned = planMeasurements({ within: Number.MAX_SAFE_INTEGER, only: names, env })
  assert.ok(planned.length >= 14)
  for (const { name, program, args } of planned) {
    assert.equal(args.at(-2), '--out', name)
    assert.equal(args.at(-1), `bench/results/${name}.json`)
    assert.match(readFileSync(join(root, program), 'utf8'), /\bout: \{ type: 'string' \}/, `${program} takes no --out`)
  }
})

const BENCHES: Record<string, Measured> = Object.fromEntries(
  Object.entries({ viewer: 4, kill: 6, sandbox: 1, chaos: undefined, pods: 2 }).map(([name, minutes]) => [
    name,
    { command: MEASURED[name]?.command ?? '', sources: [], ...(minutes === undefined ? {} : { minutes }) },
  ]),
)
const namesOf = (plan: { within: number; only?: string[] }): string[] =>
  planMeasurements({ ...plan, measured: BENCHES, isOld: (name) => name !== 'pods' }).map(({ name }) => name)

test('outdated results are measured shortest first, as many as the minutes allow', () => {
  assert.deepEqual(namesOf({ within: 100 }), ['sandbox', 'viewer', 'kill'])
  assert.deepEqual(namesOf({ within: 10 }), ['sandbox', 'viewer'])
  assert.deepEqual(namesOf({ within: 0.5 }), [])
})

test('a result that is named is measured also where it is of today’s code', () => {
  assert.deepEqual(namesOf({ within: 100, only: ['pods', 'kill'] }), ['pods', 'kill'])
})

test('a name without a result, and a bench that needs hours, are refused', () => {
  assert.throws(() => namesOf({ within: 100, only: ['nothing'] }), /Expected --only of results.*got nothing/)
  assert.throws(() => namesOf({ within: 100, only: ['chaos'] }), /chaos needs input or hours.*npm run chaos/)
})

test('a bench whose variables are not set is left out, or refused by its name', () => {
  const measured = { ...BENCHES, kill: { ...(BENCHES['kill'] as Measured), needs: ['SOURCE_A', 'SOURCE_B'] } }
  const plan = (input: { only?: string[]; env: NodeJS.ProcessEnv }): string[] =>
    planMeasurements({ within: 100, measured, isOld: () => true, ...input }).map(({ name }) => name)
  assert.deepEqual(plan({ env: { SOURCE_A: 'x' } }), ['sandbox', 'pods', 'viewer'])
  assert.deepEqual(plan({ env: { SOURCE_A: 'x', SOURCE_B: 'y' } }), ['sandbox', 'pods', 'viewer', 'kill'])
  assert.throws(() => plan({ only: ['kill'], env: { SOURCE_A: 'x' } }), /kill needs SOURCE_B: see its --help/)
})

test('a result replaces the old one unless the bench measured nothing', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'measure-again-'))
  try {
    const program = join(folder, 'bench.mjs')
    const result = join(folder, 'kill.json')
    const play = async (body: string): Promise<[number | string, string]> => {
      writeFileSync(result, '"old"')
      writeFileSync(program, `import { writeFileSync } from 'node:fs'\nconst out = process.argv[3]\n${body}\n`)
      const planned = {
        name: 'kill',
        program: relative(root, program),
        args: ['--out', 'bench/results/kill.json'],
        minutes: 1,
      }
      return [await measureAgain(planned, folder), readFileSync(result, 'utf8')]
    }
    assert.deepEqual(await play(`writeFileSync(out, '"new"')`), [0, '"new"'])
    assert.deepEqual(await play(`writeFileSync(out, '"bad"'); process.exit(1)`), [1, '"bad"'])
    assert.deepEqual(await play(`writeFileSync(out, '"half"'); process.exit(2)`), [2, '"old"'])
    assert.deepEqual(await play(`writeFileSync(out, '{"cut'); process.exit(1)`), [1, '"old"'])
    assert.deepEqual(await play(`process.exit(0)`), [0, '"old"'])
    assert.deepEqual(await play(`process.kill(process.pid, 'SIGKILL')`), ['SIGKILL', '"old"'])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
