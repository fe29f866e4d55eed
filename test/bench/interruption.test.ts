import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'

const INTERRUPTION = import.meta.resolve('../../bench/support/interruption.ts')

/** What a bench prints after `ready`, and its exit code, if it is interrupted once it is ready. */
async function interrupted(signal: NodeJS.Signals, more = ''): Promise<{ printed: string; code: number | null }> {
  const code = `
    import { stopOnInterrupt } from ${JSON.stringify(INTERRUPTION)}
    stopOnInterrupt(async () => {
      await new Promise((resolve) => setTimeout(resolve, 20))
      console.log('stopped')
    })
    ${more}
    setInterval(() => undefined, 1_000)
    console.log('ready')
  `
  const bench = spawn(process.execPath, ['--input-type=module', '--eval', code], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let printed = ''
  bench.stdout.on('data', (part: Buffer) => {
    printed += part.toString()
    if (printed === 'ready\n') bench.kill(signal)
  })
  const [exitCode] = (await once(bench, 'close')) as [number | null]
  return { printed: printed.replace('ready\n', ''), code: exitCode }
}

test('an interrupted bench stops what it has started and says by which signal it ended', async () => {
  assert.deepEqual(await interrupted('SIGTERM'), { printed: 'stopped\n', code: 143 })
  assert.deepEqual(await interrupted('SIGINT'), { printed: 'stopped\n', code: 130 })
})

test('a bench that listens itself ends in its own way', async () => {
  const own = "process.on('SIGTERM', () => { console.log('own'); process.exitCode = 3; setTimeout(process.exit, 50) })"
  assert.deepEqual(await interrupted('SIGTERM', own), { printed: 'own\n', code: 3 })
})
