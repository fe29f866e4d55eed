/** The story: `npm run chaos -- --help` printed the stack of an exception, and so did a misspelt option of any bench. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const BENCH = join(import.meta.dirname, '../../bench')
const programs = readdirSync(BENCH).filter((name) => name.endsWith('.ts'))

interface Answer {
  code: number
  stdout: string
  stderr: string
}

function run(program: string, ...options: string[]): Promise<Answer> {
  return new Promise((resolve) => {
    execFile(process.execPath, [join(BENCH, program), ...options], (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    )
  })
}

test('every bench reads its options with the function that answers --help', () => {
  assert.ok(programs.length > 15)
  for (const program of programs) {
    const text = readFileSync(join(BENCH, program), 'utf8')
    assert.match(text, /= benchArguments\(/, program)
    assert.doesNotMatch(text, /parseArgs\(|process\.argv/, program)
    assert.match(text, /^\/\*\*[^]*?^ \* +(?:npm|node) /m, `${program} begins with its usage`)
  }
})

for (const [program, exitCode] of [
  ['chaos.ts', 1],
  ['figures.ts', 1],
  ['mutate.ts', 1],
  ['../test/trainer.ts', 1],
  // 1 says that a test failed.
  ['../test/run.ts', 2],
] as const) {
  test(`${program} --help prints the description of its file and ends with 0`, async () => {
    const { code, stdout, stderr } = await run(program, '--help')
    assert.equal(stderr, '')
    assert.equal(code, 0)
    assert.match(stdout, /npm (?:run|test) /)
    assert.doesNotMatch(stdout, /^\s*\*/m)
  })

  test(`${program} names an unknown option, shows its usage and ends with ${exitCode}`, async () => {
    const { code, stdout, stderr } = await run(program, '--no-such-option')
    assert.equal(code, exitCode)
    assert.equal(stdout, '')
    assert.match(stderr, /^Unknown option '--no-such-option'[^]*npm (?:run|test) /)
    assert.doesNotMatch(stderr, /\n +at /)
  })
}

test('an invalid value ends a bench like an unknown option', async () => {
  const { code, stderr } = await run('grading-differential.ts', '--kind', 'swebench-6')
  assert.equal(code, 1)
  assert.match(stderr, /^Expected --kind of swebench-4\.1.*got swebench-6\n.*npm run/)
})
