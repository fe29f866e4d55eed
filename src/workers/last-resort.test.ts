import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { test } from 'node:test'

test('reports uncaught errors and keeps the process running', async () => {
  const url = new URL('./last-resort.ts', import.meta.url).href
  const script = `
    const { surviveStrayErrors } = await import(${JSON.stringify(url)})
    const stop = surviveStrayErrors((line) => process.stderr.write(line))
    const { EventEmitter } = await import('node:events')
    setTimeout(() => new EventEmitter().emit('error', new Error('of a socket')), 1)
    setTimeout(() => void Promise.reject(new Error('of a promise')), 5)
    setTimeout(() => { console.log('alive'); stop() }, 50)`
  const { stdout, stderr } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script])
  assert.equal(stdout, 'alive\n')
  const told = stderr
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { message: string; error: string })
  assert.deepEqual(
    told.map(({ message, error }) => [message, error]),
    [
      ['stray error: uncaught exception', 'of a socket'],
      ['stray error: unhandled rejection', 'of a promise'],
    ],
  )
})
