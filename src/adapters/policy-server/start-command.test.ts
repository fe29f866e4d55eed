import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stateRope } from '../trainer-job/rope-statement.ts'
import { requireVersion, spellCommand, startCommand, startPositions } from './start-command.ts'

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

const NATIVE = '{"max_position_embeddings": 32768, "rope_theta": 1000000.0}'

test('the rope of the policy’s config.json goes into the command of either engine, as the directory spells it', () => {
  const configJson = stateRope(NATIVE, { type: 'yarn', factor: 4, originalMax: 32_768 })
  const { overrides } = startPositions({ configJson, directory: '/p', context: 131_072 })
  for (const [kind, flag] of [
    ['vllm', '--hf-overrides'],
    ['sglang', '--json-model-override-args'],
  ] as const) {
    const input = { kind, ...wanted, publish: 'restart', deterministic: true } as const
    const { command } = startCommand({ ...input, overrides })
    assert.equal(
      command[command.indexOf(flag) + 1],
      '{"rope_parameters":{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":32768,"rope_theta":1000000.0},"max_position_embeddings":131072}',
    )
    assert.ok(!startCommand(input).command.includes(flag), 'nothing is overridden where nothing is stated')
  }
})

test('a context that the policy’s positions do not reach is refused before a server is started for it', () => {
  const refused = (configJson: string, context: number, message: RegExp) =>
    assert.throws(() => startPositions({ configJson, directory: '/p', context }), { code: 'Config.Invalid', message })
  refused(NATIVE, 65_536, /at most the policy’s 32768 positions, got 65536.*model\.rope/)
  const stated = stateRope(NATIVE, { type: 'yarn', factor: 2, originalMax: 32_768 })
  refused(stated, 131_072, /65536 positions \(yarn × 2 from 32768\)/)
  refused('{', 1, /to be JSON/)
  assert.deepEqual(startPositions({ configJson: NATIVE, directory: '/p', context: 32_768 }), { overrides: null })
  assert.deepEqual(startPositions({ configJson: null, directory: '/p', context: 65_536 }), { overrides: null })
})
