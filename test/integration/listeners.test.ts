/** What the project starts is reached from the machine itself alone: read from the kernel, so that no option is believed. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { attachWorld, needsStack } from '../support/pipeline-world.ts'
import { isLoopbackAddress, listeningAddresses } from '../support/listening.ts'

test('every service of a stack and its children listen on loopback only', {
  skip: needsStack,
}, async (t) => {
  const { stack, close } = await attachWorld()
  t.after(close)
  const services = await stack.pids()
  const found = new Map<string, string[]>()
  for (const [service, pid] of Object.entries(services)) found.set(service, await listeningAddresses(pid))
  // Both are servers: a reader of the kernel's tables that finds nothing would pass.
  assert.ok((found.get('temporal') ?? []).length >= 2, String(found.get('temporal')))
  assert.ok((found.get('policy-server') ?? []).length === 1, String(found.get('policy-server')))
  assert.ok(found.has('worker-sandbox') && found.has('worker-control'))
  for (const [service, addresses] of found) {
    assert.deepEqual(
      addresses.filter((address) => !isLoopbackAddress(address)),
      [],
      service,
    )
  }
})

test('the check detects a server on all interfaces, also in a child process', async (t) => {
  const code = (host: string) => `require('net').createServer().listen(0, ${host}, () => console.log('up'))`
  for (const [host, isSafe] of [
    ["'0.0.0.0'", false],
    ["'::'", false],
    ["'127.0.0.1'", true],
    ["'::1'", true],
  ] as const) {
    const nested = `const c = require('child_process').spawn(process.execPath, ['-e', ${JSON.stringify(code(host))}], { stdio: ['pipe', 'inherit', 'inherit'] }); process.stdin.on('end', () => c.kill()).resume()`
    const parent = spawn(process.execPath, ['-e', nested], { stdio: ['pipe', 'pipe', 'inherit'] })
    t.after(() => parent.stdin.end())
    await once(parent.stdout, 'data')
    const addresses = await listeningAddresses(parent.pid ?? 0)
    assert.equal(addresses.length, 1)
    assert.equal(addresses.every(isLoopbackAddress), isSafe, addresses.join())
  }
})
