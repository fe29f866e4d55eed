import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'

/** Takes a second to take down what it has started. */
const PROGRAM = `
  import { abortOnInterrupt } from ${JSON.stringify(new URL('./interrupts.ts', import.meta.url).href)}
  const { signal } = abortOnInterrupt((name) => new Error(name))
  setInterval(() => {}, 1_000)
  signal.addEventListener('abort', () => setTimeout(() => {
    console.log('taken down after ' + signal.reason.message)
    process.exit(130)
  }, 1_000))
  console.log('ready')
`

interface Case {
  signals: NodeJS.Signals[]
  apartMs: number
  ends: [code: number | null, signal: NodeJS.Signals | null]
  said: string
}

const CASES: Record<string, Case> = {
  'one SIGTERM that the group and two parents repeat takes the program down once': {
    signals: ['SIGTERM', 'SIGTERM', 'SIGTERM'],
    apartMs: 150,
    ends: [130, null],
    said: 'ready\ntaken down after SIGTERM\n',
  },
  'one Ctrl-C from the terminal and from npm takes the program down once': {
    signals: ['SIGINT', 'SIGINT'],
    apartMs: 20,
    ends: [130, null],
    said: 'ready\ntaken down after SIGINT\n',
  },
  'a second Ctrl-C of the user ends the program at once': {
    signals: ['SIGINT', 'SIGINT'],
    apartMs: 400,
    ends: [null, 'SIGINT'],
    said: 'ready\n',
  },
}

for (const [title, { signals, apartMs, ends, said }] of Object.entries(CASES)) {
  test(title, async () => {
    const child = spawn(process.execPath, ['--input-type=module', '--eval', PROGRAM], { timeout: 60_000 })
    let output = ''
    child.stdout.on('data', (data) => (output += String(data)))
    const ended = once(child, 'exit')
    await once(child.stdout, 'data')
    for (const signal of signals) {
      child.kill(signal)
      await sleep(apartMs)
    }
    assert.deepEqual(await ended, ends)
    assert.equal(output, said)
  })
}
