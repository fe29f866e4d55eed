import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import { recipeFileSchema } from '../../contracts/recipe.schema.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import type { EngineLaunchRecipe, Recipe } from '../../contracts/recipe.types.ts'
import { engineCommand } from './engine-command.ts'

let directory = ''

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'engine-command-'))
  await writeFile(join(directory, 'config.json'), '{"max_position_embeddings": 32768}')
})
after(() => rm(directory, { recursive: true, force: true }))

test('an engine gets the policy, the longest context of the recipe, the GPUs of its replica and the operator’s flags', async () => {
  const { environment, command } = await commandOf('vllm', {
    gpus: ['0', '1'],
    program: '/opt/vllm',
    arguments: ['--enforce-eager'],
    environment: { VLLM_CPU_KVCACHE_SPACE: '1' },
  })
  assert.deepEqual(environment, {
    VLLM_SERVER_DEV_MODE: '1',
    CUDA_VISIBLE_DEVICES: '1',
    VLLM_CPU_KVCACHE_SPACE: '1',
  })
  assert.deepEqual(command.slice(0, 3), ['/opt/vllm', 'serve', directory])
  const after = (flag: string) => command[command.indexOf(flag) + 1]
  assert.deepEqual([after('--port'), after('--host')], ['20001', '127.0.0.1'])
  const { rft, reinforce, evaluate } = recipe()
  const contexts = [rft?.context ?? 0, evaluate.context, ...(reinforce?.stages ?? []).map(({ context }) => context)]
  assert.equal(after('--max-model-len'), String(Math.max(...contexts)))
  assert.equal(command.at(-1), '--enforce-eager')
})

test('the command names the variable of the workers’ key and never contains the key', async () => {
  for (const kind of ['vllm', 'sglang', 'embedded'] as const) {
    const { command } = await commandOf(kind, {}, true)
    assert.ok(
      command.some((word) => word.includes('LONGHAUL_POLICY_API_KEY')),
      kind,
    )
  }
})

test('refuses an address that other machines reach without a key, and names the variable to set', async () => {
  for (const kind of ['sglang', 'embedded'] as const) {
    await assert.rejects(commandOf(kind, { host: '10.0.0.7' }), {
      code: 'Config.Invalid',
      message: /policyServer\.launch: .*LONGHAUL_POLICY_API_KEY/,
    })
  }
})

test('starts vLLM with sleep mode only when it shares a GPU with training jobs', async () => {
  const isSleeper = async (device: 'cpu' | 'cuda', kind: 'vllm' | 'sglang', placement: 'shared' | 'separate') =>
    (await commandOf(kind, { placement }, false, device)).command.includes('--enable-sleep-mode')
  assert.equal(await isSleeper('cuda', 'vllm', 'shared'), true)
  assert.equal(await isSleeper('cuda', 'vllm', 'separate'), false)
  // vLLM refuses the flag where there is no GPU.
  assert.equal(await isSleeper('cpu', 'vllm', 'shared'), false)
  assert.equal(await isSleeper('cuda', 'sglang', 'shared'), false)
})

function recipe(): Recipe {
  return makeTrainingRecipe()
}

function commandOf(
  kind: 'vllm' | 'sglang' | 'embedded',
  changes: Partial<EngineLaunchRecipe>,
  hasKey = false,
  device: 'cpu' | 'cuda' = 'cpu',
) {
  const policyServer = recipeFileSchema.shape.policyServer.parse({ kind, launch: { replicas: 2, ...changes } })
  assert.ok(policyServer.launch)
  const policy: PolicyRef = {
    version: 'v000001-00000001',
    uri: pathToFileURL(directory).href,
    manifestSha256: '',
    globalStep: 1,
    checkpointUri: null,
    checkpointSha256: null,
  }
  return engineCommand({
    recipe: { ...recipe(), policyServer, trainer: { ...recipe().trainer, device } },
    launch: policyServer.launch,
    policy,
    publish: kind === 'vllm' ? 'reload' : 'restart',
    index: 1,
    url: 'http://127.0.0.1:20001',
    embedded: { python: 'python3', env: {}, state: '/state' },
    hasKey,
  })
}
