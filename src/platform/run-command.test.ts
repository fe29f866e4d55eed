import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HANG_MS } from '../../test/support/hang.ts'
import { requireCommand, runCommand } from './run-command.ts'

const shell = (script: string) => ({ command: 'sh', args: ['-c', script] })

test('a program that prints goes on beyond the longest silence, and one that falls silent is stopped with its children', async () => {
  const silenceMs = 8_000
  // Parts of a line are output too: progress bars end none.
  const chatty = shell('for i in 1 2 3 4 5 6 7 8 9 10 11 12; do printf .; sleep 1; done; echo done')
  const silent = shell('echo begun; sleep 100000 & echo $!; wait')
  const [ended, stopped] = await Promise.all([
    runCommand({ ...chatty, timeoutMs: HANG_MS, silenceMs }),
    runCommand({ ...silent, timeoutMs: HANG_MS, silenceMs }),
  ])
  assert.deepEqual([ended.exitCode, ended.stdout, ended.timedOut], [0, `${'.'.repeat(12)}done\n`, false])
  assert.deepEqual([stopped.exitCode, stopped.timedOut, stopped.wasSilent], [null, true, true])
  const child = Number(stopped.stdout.split('\n')[1])
  assert.throws(() => process.kill(child, 0), { code: 'ESRCH' })
})

test('the error says which limit ended the program, with its last lines', async () => {
  const what = 'Building the Temporal CLI'
  const hanging = { what, ...shell('echo compiling; sleep 100000') }
  await assert.rejects(requireCommand({ ...hanging, timeoutMs: HANG_MS, silenceMs: 500 }), {
    code: 'Stack.SetupFailed',
    message: /^Building the Temporal CLI: sh printed nothing for 0\.5 s and was stopped/,
  })
  await assert.rejects(requireCommand({ ...hanging, timeoutMs: 500 }), {
    message: /sh did not end within 0\.5 s and was stopped/,
  })
})
