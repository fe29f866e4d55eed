import assert from 'node:assert/strict'
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
