import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createServer, type ServerResponse } from 'node:http'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { test, type TestContext } from 'node:test'
import { Command, type Argument, type Option } from 'commander'
import { useEnvironment } from '../../../test/support/environment.ts'
import { createFakeClock } from '../../../test/support/fake-clock.ts'
import { listenOnLoopback } from '../../../test/support/loopback.ts'
import { createProgram } from '../program.ts'
import { runCli } from '../run-cli.ts'
import { noteDisplay, noteWait } from './at-work.ts'
import type { Console } from './console.ts'
import { createLiveLines } from './live-lines.ts'
import { createSignOfLife, SERVES } from './sign-of-life.ts'

function recordingConsole(terminal: Console['terminal'] = null) {
  const lines: string[] = []
  const console: Console = {
    out: (text) => void lines.push(`out ${text}`),
    err: (text) => void lines.push(text),
    record: (value) => void lines.push(`record ${JSON.stringify(value)}`),
    command: (line) => void lines.push(line),
    terminal,
  }
  return { console, lines }
}

/** Commands without further ones below them, as `tasks gate`. */
function leaves(command: Command, path: string[] = []): { path: string[]; command: Command }[] {
  if (command.commands.length === 0) return [{ path, command }]
  return command.commands.flatMap((child) => leaves(child, [...path, child.name()]))
}

/** Some value that the argument or option takes. */
function valueOf({ argChoices, parseArg }: Argument | Option): string {
  if (argChoices !== undefined) return argChoices[0] ?? ''
  const takes = (text: string): boolean => {
    try {
      parseArg?.(text, undefined)
      return true
    } catch {
      return false
    }
  }
  return ['1', '2026-11-20T00:00:00Z', 'a=b'].find(takes) ?? assert.fail('no value is taken')
}

/** What calls a command with all that it needs and nothing else. */
function callOf({ path, command }: { path: string[]; command: Command }): string[] {
  const options = command.options.filter(({ mandatory }) => mandatory)
  const needed = command.registeredArguments.filter(({ required }) => required)
  return [...path, ...options.flatMap((one) => [one.long ?? '', valueOf(one)]), ...needed.map(valueOf)]
}

const names = leaves(await createProgram({ console: recordingConsole().console, exit: () => undefined })).map(
  ({ path }) => path.join(' '),
)

for (const name of names) {
  const isServer = SERVES.includes(name)
  test(`longhaul ${name}: ${isServer ? 'serves, and may be silent' : 'is never silent for longer than 30 s'}`, async () => {
    const clock = createFakeClock()
    const { console, lines } = recordingConsole()
    const sign = createSignOfLife({ console, clock })
    const program = await createProgram({ console: sign.console, exit: () => undefined })
    sign.watch(program)
    const leaf = leaves(program).find(({ path }) => path.join(' ') === name) ?? assert.fail()
    // What it would ask does not answer.
    const { promise, resolve } = Promise.withResolvers<void>()
    leaf.command.exitOverride().action(() => promise)
    const ended = program.exitOverride().parseAsync(callOf(leaf), { from: 'user' })
    await turn()
    clock.pass(30_000)
    assert.deepEqual(lines, isServer ? [] : [`  0:30  ${name}: at work`])
    clock.pass(60_000)
    assert.equal(lines.length, isServer ? 0 : 3)
    resolve()
    await ended
    clock.pass(90_000)
    assert.equal(lines.length, isServer ? 0 : 3, 'it speaks after the end of the command')
  })
}

test('every exception is a command of the program', () => {
  assert.deepEqual(
    SERVES.filter((name) => !names.includes(name)),
    [],
  )
})

/** A command that says nothing by itself. */
async function silentCommand(t: TestContext) {
  const clock = createFakeClock()
  const { console, lines } = recordingConsole()
  const sign = createSignOfLife({ console, clock })
  const { promise, resolve } = Promise.withResolvers<void>()
  const program = new Command()
  program.command('brood').action(() => promise)
  sign.watch(program)
  const ended = program.parseAsync(['brood'], { from: 'user' })
  t.after(async () => {
    resolve()
    await ended
  })
  await turn()
  return { clock, console: sign.console, lines }
}

test('what a command says is no silence; what it waits for is named, the innermost wait first', async (t) => {
  const { clock, console, lines } = await silentCommand(t)
  clock.pass(20_000)
  console.err('half')
  clock.pass(20_000)
  assert.deepEqual(lines, ['half'])
  t.after(noteWait('in talks with the server'))
  const read = noteWait('reading a key')
  clock.pass(10_000)
  assert.match(lines.at(-1) ?? '', /^ {2}0:50 {2}brood: reading a key$/)
  read()
  clock.pass(30_000)
  assert.equal(lines.at(-1), '  1:20  brood: in talks with the server')
})

test('a display that speaks for itself is not doubled, and one that has nothing to say does not silence the rest', async (t) => {
  const { clock, console, lines } = await silentCommand(t)
  const live = createLiveLines({ console, clock, describe: () => ({ stage: 'one', line: '40 %', block: [] }) })
  clock.pass(300_000)
  assert.deepEqual(new Set(lines), new Set(['40 %']))
  live.finish()
  const endOfMute = noteDisplay()
  const before = lines.length
  clock.pass(33_000)
  assert.equal(lines.length, before + 1)
  endOfMute()
})

/** A bucket answers the request with which a command opens it at once: it holds an object. */
function isOpened(url: string, response: ServerResponse): boolean {
  if (!/[?&]max-keys=1(?:&|$)/.test(url)) return false
  const key = '<Contents><Key>slow/runs/a/run.json</Key></Contents>'
  response.end(`<ListBucketResult><IsTruncated>false</IsTruncated>${key}</ListBucketResult>`)
  return true
}

test('longhaul compare against a bucket that answers slowly says what it waits for, and ends as it would', async (t) => {
  const clock = createFakeClock()
  const { console, lines } = recordingConsole()
  const asked = Promise.withResolvers<void>()
  const spoken = Promise.withResolvers<void>()
  const server = createServer(({ url = '' }, response) => {
    if (isOpened(url, response)) return
    asked.resolve()
    void spoken.promise.then(() => {
      if (url.includes('list-type=2')) {
        response.end('<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>')
        return
      }
      response.writeHead(404, { 'content-type': 'application/xml' })
      response.end('<Error><Code>NoSuchKey</Code><Message>none</Message></Error>')
    })
  })
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  useEnvironment(t, {
    LONGHAUL_ARTIFACTS: 's3://records/slow',
    LONGHAUL_TEMPORAL_ADDRESS: '127.0.0.1:1',
    AWS_ENDPOINT_URL_S3: `http://127.0.0.1:${await listenOnLoopback(server)}`,
    AWS_ACCESS_KEY_ID: 'key',
    AWS_SECRET_ACCESS_KEY: 'secret',
    AWS_REGION: 'us-east-1',
  })
  const ended = runCli({ args: ['compare', 'a:base', 'b:base'], console, clock })
  await asked.promise
  clock.pass(30_000)
  assert.match(lines.join('\n'), /^ {2}0:30 {2}compare: (reading|listing) \S+ in s3:\/\/records\/slow$/)
  spoken.resolve()
  assert.equal(await ended, 1, lines.join('\n'))
  assert.match(lines.at(-1) ?? '', /^error Config\.NotFound/)
})

test('the real command line says it too, in its own time', async (t) => {
  const home = await mkdtemp(join(tmpdir(), 'longhaul-slow-'))
  t.after(() => rm(home, { recursive: true }))
  const server = createServer(({ url = '' }, response) => void isOpened(url, response))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const child = spawn(process.execPath, [join(import.meta.dirname, '../../../bin/longhaul.mjs'), 'report', 'a'], {
    env: {
      ...process.env,
      HOME: home,
      LONGHAUL_HOME: home,
      LONGHAUL_ARTIFACTS: 's3://records/slow',
      LONGHAUL_TEMPORAL_ADDRESS: '127.0.0.1:1',
      AWS_ENDPOINT_URL_S3: `http://127.0.0.1:${await listenOnLoopback(server)}`,
      AWS_ACCESS_KEY_ID: 'key',
      AWS_SECRET_ACCESS_KEY: 'secret',
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  for await (const part of child.stderr) {
    said += String(part)
    if (/report: reading /.test(said)) break
    assert.doesNotMatch(said, /^error/m)
  }
  child.kill('SIGKILL')
  assert.match(said, /^ {2}0:3\d {2}report: (reading|listing) \S+ in s3:\/\/records\/slow$/m)
})
