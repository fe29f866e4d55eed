import assert from 'node:assert/strict'
import { test } from 'node:test'
import { requireVersion, spellCommand, startCommand } from './start-command.ts'

// That the engines know these flags is said by test/integration/server-packages.test.ts.
const wanted = {
  directory: "/data/it's here",
  version: 'v000012-1a2b3c4d',
  context: 4096,
  dtype: 'bfloat16',
  port: 8000,
} as const

test('a command is spelled for a shell, with its variables before it', () => {
  const start = startCommand({ kind: 'vllm', ...wanted, publish: 'reload', deterministic: false })
  assert.match(
    spellCommand(start),
    /^VLLM_SERVER_DEV_MODE=1 vllm serve '\/data\/it'\\''s here' --served-model-name policy /,
  )
})

test('a server that reloads listens on loopback only; one that is restarted is named by its version', () => {
  for (const kind of ['vllm', 'sglang'] as const) {
    const reload = startCommand({ kind, ...wanted, publish: 'reload', deterministic: true }).command.join(' ')
    const restart = startCommand({ kind, ...wanted, publish: 'restart', deterministic: true }).command.join(' ')
    assert.match(reload, /--host 127\.0\.0\.1/)
    assert.match(restart, /--host 0\.0\.0\.0/)
    assert.match(restart, /(--served-model-name|--weight-version) v000012-1a2b3c4d/)
  }
})

test('a name that no run would ask for is refused', () => {
  assert.equal(requireVersion('v000012-1a2b3c4d'), 'v000012-1a2b3c4d')
  assert.throws(() => requireVersion('Qwen3-4B'), { code: 'Config.Invalid', message: /--name/ })
})
