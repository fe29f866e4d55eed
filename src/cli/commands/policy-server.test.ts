import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { longhaul } from '../../../test/support/command-line.ts'
import { EXIT } from '../output/exit-codes.ts'

test('the printed command pays for repeatable samples only where they are asked for', async () => {
  const switches = { vllm: /\bVLLM_BATCH_INVARIANT=1\b/, sglang: / --enable-deterministic-inference\b/ }
  for (const [kind, repeatable] of Object.entries(switches)) {
    const args = ['policy-server', 'command', '/models/v000012-1a2b3c4d', '--kind', kind, '--context', '4096']
    const plain = await longhaul(...args)
    assert.equal(plain.exitCode, EXIT.ok)
    assert.match(plain.stdout, /v000012-1a2b3c4d/)
    assert.doesNotMatch(plain.stdout, repeatable)
    assert.match((await longhaul(...args, '--deterministic')).stdout, repeatable)
  }
})

test('the log of an engine that did not start is explained; one without a known reason, and none, are refused', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'explain-'))
  t.after(() => rm(folder, { recursive: true }))
  const log = join(folder, 'vllm.log')
  await writeFile(log, 'usage: vllm serve\nvllm: error: unrecognized arguments: --logprob-mode raw\n')
  const told = await longhaul('policy-server', 'explain', log)
  assert.equal(told.exitCode, EXIT.ok)
  assert.match(told.stdout, /does not know --logprob-mode raw/)
  await writeFile(log, 'INFO started\n')
  for (const path of [log, join(folder, 'none.log')]) {
    const refused = await longhaul('policy-server', 'explain', path)
    assert.notEqual(refused.exitCode, EXIT.ok)
    assert.match(refused.stderr, new RegExp(path))
  }
})

test('a check against a server of another policy names what it serves and how to serve the right one', async (t) => {
  let names = ['v000011-aaaaaaaa']
  // As vLLM 0.33 answers a request for a model that it was not started with.
  const server = createServer((request, response) => {
    const isList = request.url === '/v1/models'
    const missing = {
      error: { message: 'The model `v000012-1a2b3c4d` does not exist.', type: 'NotFoundError', code: 404 },
    }
    response.writeHead(isList ? 200 : 404, { 'content-type': 'application/json' })
    response.end(
      JSON.stringify(isList ? { object: 'list', data: names.map((id) => ({ id, object: 'model' })) } : missing),
    )
  })
  t.after(() => server.close())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const args = ['policy-server', 'check', 'v000012-1a2b3c4d', '--kind', 'vllm', '--url', url]
  const refused = await longhaul(...args)
  assert.equal(refused.exitCode, EXIT.infra)
  assert.equal(
    refused.stderr.trim(),
    `error Model.NotServed: Expected ${url} to serve v000012-1a2b3c4d, but it serves "v000011-aaaaaaaa": restart the server on the policy’s directory with --served-model-name v000012-1a2b3c4d (longhaul policy-server command DIRECTORY --kind vllm prints all flags), or check what it serves: longhaul policy-server check v000011-aaaaaaaa`,
  )
  names = ['policy', 'started-with-v000012-1a2b3c4d']
  assert.match(
    (await longhaul(...args)).stderr,
    /, or add --publish reload: it was started to read new weights itself$/m,
  )
  names = []
  assert.match((await longhaul(...args)).stderr, /but it serves no policy: restart the server/)
})
