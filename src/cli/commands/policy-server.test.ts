import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
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
