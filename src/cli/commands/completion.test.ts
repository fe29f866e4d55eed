/** The real scripts in real shells: what a user sees at the Tab key. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm, symlink } from 'node:fs/promises'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { eventually, HANG_MS } from '../../../test/support/hang.ts'
import { connectToOwnNamespace, needsServer } from '../../../test/support/own-namespace.ts'

const root = await mkdtemp(join(tmpdir(), 'longhaul-completion-'))
after(() => rm(root, { recursive: true }))
await symlink(fileURLToPath(new URL('../../../bin/longhaul.mjs', import.meta.url)), join(root, 'longhaul'))

/** A server that other work keeps busy is waited for, where a test is about what it says. */
const PATIENT = { LONGHAUL_COMPLETION_MS: String(HANG_MS) }
const NOWHERE = { LONGHAUL_TEMPORAL_ADDRESS: '127.0.0.1:1' }

function run(
  command: string,
  args: string[],
  env: Record<string, string>,
): Promise<{ stdout: string; stderr: string }> {
  return new Promise((resolve, reject) => {
    const environment = {
      ...process.env,
      LONGHAUL_ARTIFACTS: join(root, 'store'),
      PATH: `${root}:${process.env['PATH'] ?? ''}`,
      ...env,
    }
    execFile(command, args, { cwd: root, env: environment, timeout: HANG_MS }, (error, stdout, stderr) => {
      if (error === null) resolve({ stdout, stderr })
      else reject(error)
    })
  })
}

/** Tab in bash after each line; the cursor is at its end. */
async function bash(lines: string[], env: Record<string, string> = NOWHERE): Promise<string[][]> {
  const presses = lines.map((line) => {
    const words = line.split(' ').map((word) => `'${word}'`)
    return `COMP_WORDS=(${words.join(' ')}); COMP_CWORD=${words.length - 1}; _longhaul; printf '%s\\n' "\${COMPREPLY[@]}"; echo ---`
  })
  const script = ['source <(longhaul completion bash)', 'complete -p longhaul', ...presses].join('\n')
  const { stdout, stderr } = await run('bash', ['--norc', '-euc', script], env)
  assert.equal(stderr, '')
  const [registered = '', ...rest] = stdout.split('\n')
  assert.match(registered, /^complete .*-F _longhaul longhaul$/)
  return rest
    .join('\n')
    .split('---\n')
    .slice(0, -1)
    .map((part) => part.split('\n').filter((value) => value !== ''))
}

/** A server that begins to answer a second after it was connected to, which is more than the Tab key waits by itself. */
async function startSlowProxy(target: string): Promise<{ address: string; close(): void }> {
  const [host = '', port = ''] = target.split(':')
  const sockets = new Set<Socket>()
  const track = (socket: Socket): Socket => {
    sockets.add(socket.on('error', () => socket.destroy()))
    return socket
  }
  const server = createServer((asked) => {
    track(asked)
    setTimeout(() => asked.pipe(track(connect(Number.parseInt(port, 10), host))).pipe(asked), 1_000)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}

test('bash completes commands, options, choices and recipes, and leaves files to the shell', async () => {
  const [commands, options, choices, equals, recipes, files] = await bash([
    'longhaul r',
    'longhaul run pause --',
    'longhaul evaluate --once-per ',
    'longhaul evaluate --once-per = pi',
    'longhaul train --recipe mini',
    'longhaul tasks import rows',
  ])
  assert.deepEqual(commands?.toSorted(), ['recipe', 'reap', 'regrade', 'report', 'run'].toSorted())
  assert.deepEqual(options, ['--dry-run', '--json', '--hard', '--help'])
  assert.deepEqual(choices, ['pipeline', 'commit'])
  assert.deepEqual(equals, ['pipeline'])
  assert.deepEqual(recipes, ['mini', 'mini-two-stage'])
  assert.deepEqual(files, [])
})

test('no server, and a server that accepts and says nothing: no names, no words, and the shell goes on', async () => {
  const silent = createServer()
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const address = silent.address()
  assert.ok(address !== null && typeof address === 'object')
  try {
    assert.deepEqual(await bash(['longhaul wait ']), [[]])
    assert.deepEqual(await bash(['longhaul wait '], { LONGHAUL_TEMPORAL_ADDRESS: `127.0.0.1:${address.port}` }), [[]])
  } finally {
    silent.close()
  }
})

test('names of runs come from the server, from a slow one where it may take longer; a name that a shell would run is left out', {
  skip: needsServer,
}, async () => {
  const connection = await connectToOwnNamespace('completion')
  try {
    const ids = ['train/left-alone', 'eval/$(touch pwned)', 'train/a b', 'grade/--now', 'train/x;y', '`id`']
    for (const workflowId of ids) {
      await connection.client.workflow.start('trainAgent', { workflowId, taskQueue: 'unserved', args: [{}] })
    }
    const server = { LONGHAUL_TEMPORAL_ADDRESS: connection.address, LONGHAUL_NAMESPACE: connection.namespace }
    const env = { ...server, ...PATIENT }
    // The index lags by a moment.
    await eventually(async () => assert.deepEqual(await bash(['longhaul wait train'], env), [['train/left-alone']]))
    await eventually(async () =>
      assert.deepEqual(await bash(['longhaul run cancel '], env), [['grade/--now', 'train/left-alone']]),
    )
    const slow = await startSlowProxy(connection.address)
    try {
      const distant = { ...server, LONGHAUL_TEMPORAL_ADDRESS: slow.address }
      assert.deepEqual(await bash(['longhaul wait train'], distant), [[]])
      assert.deepEqual(await bash(['longhaul wait train'], { ...distant, ...PATIENT }), [['train/left-alone']])
    } finally {
      slow.close()
    }
    await connection.client.workflow.getHandle('train/left-alone').terminate('seen')
    await eventually(async () =>
      assert.deepEqual(await bash(['longhaul wait train', 'longhaul report train'], env), [[], ['train/left-alone']]),
    )
    for (const workflowId of ids.slice(1)) await connection.client.workflow.getHandle(workflowId).terminate('seen')
  } finally {
    await connection.close()
  }
})

test('descriptions are for zsh and fish, values alone for bash; `--option=` stays before a value', async () => {
  const answer = async (...args: string[]) => (await run('longhaul', ['__complete', ...args], NOWHERE)).stdout
  assert.equal(await answer('fish', '--', 'dow'), 'down\tstop everything that up started\n')
  assert.equal(await answer('zsh', '--', 'evaluate', '--once-per=c'), '--once-per=commit\n')
  assert.equal(await answer('bash', '--', 'dow'), 'down\n')
})
