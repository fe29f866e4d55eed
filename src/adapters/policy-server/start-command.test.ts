import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { stateRope } from '../trainer-job/job/rope-statement.ts'
import { requireVersion, spellCommand, startCommand, startPositions } from './start-command.ts'

// That the engines know these flags is said by test/integration/server-packages.test.ts.
const wanted = {
  directory: "/data/it's here",
  version: 'v000012-1a2b3c4d',
  context: 4096,
  dtype: 'bfloat16',
  port: 8000,
} as const

test('quotes a command for a shell, with its variables before it', () => {
  const start = startCommand({ kind: 'vllm', ...wanted, publish: 'reload', deterministic: false })
  assert.match(
    spellCommand(start),
    /^VLLM_SERVER_DEV_MODE=1 vllm serve '\/data\/it'\\''s here' --served-model-name policy /,
  )
})

test('a server listens on loopback by default, and one that is restarted has its version as name', () => {
  for (const kind of ['vllm', 'sglang'] as const) {
    const reload = startCommand({ kind, ...wanted, publish: 'reload', deterministic: true }).command.join(' ')
    const restart = startCommand({ kind, ...wanted, publish: 'restart', deterministic: true }).command.join(' ')
    assert.match(reload, /--host 127\.0\.0\.1/)
    assert.match(restart, /--host 127\.0\.0\.1/)
    assert.match(restart, /(--served-model-name|--weight-version) v000012-1a2b3c4d/)
  }
})

const plain = { ...wanted, publish: 'restart', deterministic: false } as const
const key = 'LONGHAUL_POLICY_API_KEY'

test('refuses an address for other machines without a key', () => {
  const reachable = ['0.0.0.0', '::', '10.0.0.7', 'gpu-1', '0', '127.1', '127.0.0.1.example.org', '::ffff:10.0.0.7']
  for (const kind of ['vllm', 'sglang'] as const) {
    for (const host of reachable) {
      const refused = { code: 'Config.Invalid', message: /Expected a key .*--api-key-variable/ }
      assert.throws(() => startCommand({ kind, ...plain, host }), refused, host)
      assert.ok(startCommand({ kind, ...plain, host, apiKeyVariable: key }).command.includes(host))
    }
    for (const host of ['127.0.0.1', '127.8.9.10', '::1', 'localhost']) {
      assert.equal(startCommand({ kind, ...plain, host }).command.at(-3), host)
    }
    // To both engines no host, or a blank one, means all interfaces.
    for (const host of ['', ' ', '*', '--port', '0.0.0.0 ', '127.0.0.1\n0.0.0.0', '$(id)']) {
      const refused = { code: 'Config.Invalid', message: /Expected --host/ }
      assert.throws(() => startCommand({ kind, ...plain, host, apiKeyVariable: key }), refused, JSON.stringify(host))
    }
  }
})

test('keeps vLLM with reloads on loopback even with a key, because its reload needs no key', () => {
  const asked = { ...plain, publish: 'reload', host: '0.0.0.0', apiKeyVariable: key } as const
  const refused = { code: 'Config.Invalid', message: /loopback address with --publish reload/ }
  assert.throws(() => startCommand({ kind: 'vllm', ...asked }), refused)
  assert.ok(startCommand({ kind: 'sglang', ...asked }).command.includes('0.0.0.0'))
})

test('refuses a key in place of its variable without repeating it', () => {
  for (const apiKeyVariable of ['sk-secret', 'a b', '', '1A', 'A}"; id; "${B', 'A\n']) {
    assert.throws(
      () => startCommand({ kind: 'vllm', ...plain, apiKeyVariable }),
      (error: Error) => /never the key itself/.test(error.message) && !error.message.includes('secret'),
    )
  }
})

test('the server reads its key from the variable and does not start without it', () => {
  const show = ['env', 'sh', '-c', 'printf "%s/" "$VLLM_API_KEY" "$@"', 'sh']
  const start = (kind: 'vllm' | 'sglang', value: string) => {
    const line = spellCommand(startCommand({ kind, ...plain, host: '::', apiKeyVariable: key }))
    const shown = line.replace(
      kind === 'vllm' ? / vllm serve/ : / python -m sglang\.launch_server/,
      ` ${show.map((word) => `'${word}'`).join(' ')}`,
    )
    assert.notEqual(shown, line)
    return spawnSync('sh', ['-c', shown], { encoding: 'utf8', env: { PATH: process.env['PATH'], [key]: value } })
  }
  const secret = `it's "a" $key`
  assert.match(start('vllm', secret).stdout, /^it's "a" \$key\/\/data\/it's here\//)
  assert.match(start('sglang', secret).stdout, /\/--api-key\/it's "a" \$key\/$/)
  for (const kind of ['vllm', 'sglang'] as const) {
    const ended = start(kind, '')
    assert.notEqual(ended.status, 0)
    assert.equal(ended.stdout, '')
    assert.match(ended.stderr, /LONGHAUL_POLICY_API_KEY: holds no key/)
    assert.ok(!spellCommand(startCommand({ kind, ...plain, apiKeyVariable: key })).includes(secret))
  }
})

test('refuses a name that is no policy version', () => {
  assert.equal(requireVersion('v000012-1a2b3c4d'), 'v000012-1a2b3c4d')
  assert.throws(() => requireVersion('Qwen3-4B', ': name it with --name'), {
    code: 'Config.Invalid',
    message: 'Expected a policy version as v000012-1a2b3c4d, got "Qwen3-4B": name it with --name',
  })
})

const NATIVE = '{"max_position_embeddings": 32768, "rope_theta": 1000000.0}'

test('adds the rope of the policy’s config.json to the command of either engine unchanged', () => {
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
    assert.ok(!startCommand(input).command.includes(flag), 'without a stated rope the command overrides nothing')
  }
})

test('refuses a context beyond the policy’s positions before a server is started for it', () => {
  const refused = (configJson: string, context: number, message: RegExp) =>
    assert.throws(() => startPositions({ configJson, directory: '/p', context }), { code: 'Config.Invalid', message })
  refused(NATIVE, 65_536, /at most the policy’s 32768 positions, got 65536.*model\.rope/)
  const stated = stateRope(NATIVE, { type: 'yarn', factor: 2, originalMax: 32_768 })
  refused(stated, 131_072, /65536 positions \(yarn × 2 from 32768\)/)
  refused('{', 1, /to be JSON/)
  assert.deepEqual(startPositions({ configJson: NATIVE, directory: '/p', context: 32_768 }), { overrides: null })
  assert.deepEqual(startPositions({ configJson: null, directory: '/p', context: 65_536 }), { overrides: null })
})

test('appends a further flag, and refuses one that Longhaul sets itself', () => {
  const input = { kind: 'vllm', ...wanted, publish: 'restart', deterministic: false } as const
  const { command } = startCommand({ ...input, program: '/opt/vllm', more: ['--tensor-parallel-size', '2'] })
  assert.deepEqual([command[0], ...command.slice(-2)], ['/opt/vllm', '--tensor-parallel-size', '2'])
  // vLLM takes _ for -, both engines' parsers a flag's beginning for the flag, and --model replaces the policy.
  for (const flag of [
    '--dtype',
    '--logprobs-mode=raw_logprobs',
    '--max_model_len',
    '--logprobs',
    '--model',
    '--api-key=x',
  ]) {
    assert.throws(() => startCommand({ ...input, more: [flag] }), { code: 'Config.Invalid', message: /sets itself/ })
  }
})
