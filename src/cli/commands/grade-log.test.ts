import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import type { Console } from '../output/console.ts'
import { gradeBatch, readLines } from './grade-batch.ts'
import { createParserPool } from '../../adapters/parsing/parser-pool.ts'
import { gradeWithin } from '../arguments/grade-log-request.ts'
import { runCli } from '../run-cli.ts'

const folder = await mkdtemp(join(tmpdir(), 'longhaul-grade-'))
after(() => rm(folder, { recursive: true, force: true }))

const LOG = '>>>>> Start Test Output\nPASSED 7\nFAILED __proto__\nPASSED 3\n>>>>> End Test Output\n'
const file = async (name: string, content: string | Uint8Array): Promise<string> => {
  const path = join(folder, name)
  await writeFile(path, content)
  return path
}

async function longhaul(...args: string[]): Promise<{ exitCode: number; stdout: string; stderr: string }> {
  let [stdout, stderr] = ['', '']
  const console: Console = {
    out: (text) => void (stdout += text),
    err: (text) => void (stderr += text),
    record: (value) => void (stdout += JSON.stringify(value)),
    command: (line) => void (stderr += `${line}\n`),
    terminal: null,
  }
  return { exitCode: await runCli({ args: ['grade-log', ...args], console }), stdout, stderr }
}

async function batch(...chunks: (string | Uint8Array)[]): Promise<{ answers: object[]; text: string; counts: object }> {
  let text = ''
  async function* input(): AsyncGenerator<Buffer> {
    for (const chunk of chunks) yield Buffer.from(chunk as string)
  }
  const counts = await gradeBatch({
    input: input(),
    write: async (part) => {
      text += part
    },
  })
  const answers = text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as object)
  return { answers, text, counts }
}

const request = (members: object): string =>
  `${JSON.stringify({ id: 'x', profile: 'swebench-4.1', parser: 'parse_log_pytest', logBase64: btoa(LOG), ...members })}\n`

test('a log without lists gives its map in the order of the log and no verdict; lists give one', async () => {
  const log = await file('log.txt', LOG)
  const options = ['--profile', 'swebench-4.1', '--parser', 'pytest-dev/pytest', log, '--json']
  const map = '"statusMap":{"7":"PASSED","__proto__":"FAILED","3":"PASSED"}'
  assert.deepEqual(await longhaul(...options), { exitCode: 0, stdout: `{${map},"resolved":null}`, stderr: '' })
  const packed = [...options.slice(0, -2), await file('log.txt.gz', gzipSync(LOG)), '--json']
  assert.deepEqual(await longhaul(...packed), { exitCode: 0, stdout: `{${map},"resolved":null}`, stderr: '' })
  const torn = await longhaul(...options.slice(0, -2), await file('torn.gz', 'text'))
  assert.notEqual(torn.exitCode, 0)
  assert.match(torn.stderr, /torn\.gz to be a gzip file .*: it is not gzip, or truncated/)
  const lists = await Promise.all([file('f.json', '\ufeff["7"]'), file('p.json', '["__proto__"]')])
  const one = await longhaul(...options, '--fail-to-pass', lists[0])
  assert.equal(one.stdout, `{${map},"resolved":true}`)
  const both = await longhaul(...options, '--fail-to-pass', lists[0], '--pass-to-pass', lists[1])
  assert.equal(both.stdout, `{${map},"resolved":false}`)
})

test('a test whose name steers terminals keeps its name, and no answer holds it raw', async () => {
  const name = 'test_\u202e\u009bodd ##[error]'
  const log = LOG.replace('PASSED 7', `PASSED ${name}`)
  const one = await longhaul(
    '--profile',
    'swebench-4.1',
    '--parser',
    'pytest-dev/pytest',
    await file('odd.txt', log),
    '--json',
  )
  const { text } = await batch(request({ logBase64: Buffer.from(log).toString('base64') }))
  for (const answer of [one.stdout, text]) {
    const { statusMap } = JSON.parse(answer) as { statusMap: object }
    assert.ok(
      Object.keys(statusMap).some((key) => key.startsWith('test_\u202e')),
      answer,
    )
    assert.doesNotMatch(answer, /[\u202e\u009b]|##/)
  }
})

test('what the harness refuses is an error with exit code 1, and so is a wrong call', async () => {
  const log = await file('bad.txt', Uint8Array.from([0xff]))
  const refused = await longhaul('--profile', 'rebench-v2', '--parser', 'parse_log_pytest', log, '--json')
  assert.deepEqual([refused.exitCode, refused.stdout], [1, '{"error":"the log is not UTF-8"}'])
  const unported = await longhaul('--profile', 'swebench-5', '--parser', 'parse_log_karma', log)
  assert.match(unported.stdout, /^error: unsupported parser/)
  const list = await file('list.json', '[1]')
  for (const args of [
    [],
    [log],
    ['--profile', 'other', '--parser', 'x', log],
    ['--batch', join(folder, 'absent')],
    ['--batch', log, log],
    ['--profile', 'swebench-5', '--parser', 'x', join(folder, 'absent')],
    ['--profile', 'swebench-5', '--parser', 'x', '--fail-to-pass', list, log],
  ]) {
    const { exitCode, stdout } = await longhaul(...args)
    assert.deepEqual([exitCode, stdout], [1, ''], args.join(' '))
  }
})

test('a batch answers each line in order, wherever its chunks are cut; lines without an end and blank ones are no trouble', async () => {
  const lines = [
    request({ id: 'a' }),
    '\n  \r\n',
    request({ id: 'b', failToPass: ['7'] }),
    request({ id: 3, failToPass: [], passToPass: null, profile: 'fork-4.0.3' }).trimEnd(),
  ].join('')
  const expected = [
    { id: 'a', resolved: null },
    { id: 'b', resolved: true },
    { id: 3, resolved: true },
  ]
  for (const size of [1, 7, 100, 10_000]) {
    const chunks = Array.from({ length: Math.ceil(lines.length / size) }, (_, index) =>
      lines.slice(index * size, (index + 1) * size),
    )
    const { answers, counts } = await batch(...chunks)
    assert.deepEqual(
      answers.map((answer) => ({ ...answer, statusMap: undefined })),
      expected.map((answer) => ({ ...answer, statusMap: undefined })),
    )
    assert.deepEqual(counts, { graded: 3, errors: 0, unread: 0 })
  }
})

test('a bad line is answered with an error, by its id where it has one, and the batch goes on', async () => {
  const { answers, counts } = await batch(
    'no json\n',
    '[]\n',
    Uint8Array.from([0x22, 0xff, 0x22, 0x0a]),
    request({ profile: 'swebench-6' }),
    request({ parser: null }),
    request({ parser: 'parse_log_nothing' }),
    request({ logBase64: 'a b=' }),
    request({ logBase64: 'UEFTU0VEIG' }),
    request({ logBase64: undefined }),
    request({ failToPass: 'a' }),
    request({ passToPass: [1] }),
    request({ evalType: 'other' }),
    request({ logBase64: '/w==' }),
    request({ id: 'last', profile: 'swebench-5', logBase64: '/w==' }),
  )
  const last = answers.pop()
  assert.deepEqual(last, { id: 'last', statusMap: {}, resolved: null })
  assert.equal(answers.length, 13)
  for (const [index, answer] of answers.entries()) {
    assert.deepEqual(Object.keys(answer), ['id', 'error'], JSON.stringify(answer))
    assert.equal((answer as { id: unknown }).id, index < 3 ? null : 'x')
  }
  assert.deepEqual(counts, { graded: 1, errors: 13, unread: 11 })
})

test('a line that is too long is given up, not held, and the next one is read', async () => {
  async function* input(): AsyncGenerator<Buffer> {
    for (let part = 0; part < 5; part += 1) yield Buffer.from('abcdefgh')
    yield Buffer.from('\nshort\n12345678\n123456789\n')
  }
  const lines: (string | null)[] = []
  for await (const line of readLines({ input: input(), maxBytes: 8 })) lines.push(line?.toString() ?? null)
  assert.deepEqual(lines, [null, 'short', '12345678', null])
})

test('a log that takes longer than the deadline is refused, and the next is graded', async () => {
  const hurried = createParserPool({ deadlineMs: 1 })
  const grade = (log: string, pool?: typeof hurried) =>
    gradeWithin(
      { profile: 'rebench-v2', parser: 'parse_log_gradle_custom', log: new TextEncoder().encode(log), tests: null },
      pool,
    )
  const refused = await grade('T > a PASSED\n'.repeat(400_000), hurried)
  await hurried.dispose()
  assert.deepEqual(refused, {
    kind: 'refused',
    reason: 'deadline',
    message: 'Parsing untrusted text exceeded a limit: not parsed within 0.001 s',
  })
  const long = await grade(`${'T > a PASSED\n'.repeat(10_000)}T > b FAILED`)
  assert.deepEqual(long.kind === 'graded' ? [...long.statuses] : [], [
    ['T > a', 'PASSED'],
    ['T > b', 'FAILED'],
  ])
})

test('a batch without one line that asks for a grading ends with 1; a byte order mark is no part of its first line', async () => {
  const wrong = await longhaul('--batch', await file('wrong.jsonl', '[]\nnull\n{"instance_id":"a"}\n'))
  assert.equal(wrong.exitCode, 1)
  assert.match(
    wrong.stderr,
    /error Config\.Invalid: Expected a batch with a log a line in .*wrong\.jsonl: none of its 3 lines is one/,
  )
  const half = await longhaul('--batch', await file('half.jsonl', `\ufeff${request({})}[]\n`))
  assert.equal(half.exitCode, 0)
  assert.match(half.stderr, /1 logs graded, 1 errors/)
  assert.equal((await longhaul('--batch', await file('none.jsonl', ''))).exitCode, 0)
})

test('a packed log that is cut, and a list that is no JSON: the mistake of the one who named it, with the reason', async () => {
  const options = ['--profile', 'swebench-4.1', '--parser', 'pytest-dev/pytest']
  const cut = await longhaul(...options, await file('cut.gz', '\u001f\u008b'))
  assert.equal(cut.exitCode, 1)
  assert.match(cut.stderr, /error Config\.Invalid: .*cut\.gz.*not gzip, or truncated.*; pack it again/)
  const list = await longhaul(...options, '--fail-to-pass', await file('list.json', '["a"'), await file('a.txt', ''))
  assert.equal(list.exitCode, 1)
  assert.match(list.stderr, /list\.json to be a list of test names in JSON: .*position 4/)
})
