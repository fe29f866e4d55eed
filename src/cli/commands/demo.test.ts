import assert from 'node:assert/strict'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, describe, test } from 'node:test'
import { createConsole } from '../output/console.ts'
import { readDemoRecipe } from './demo.ts'

describe('the demo with another sampler', () => {
  const { PATH, LONGHAUL_POLICY_URL } = process.env
  const console = createConsole()
  let folder: string

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'longhaul-demo-'))
    const program = join(folder, 'vllm')
    await writeFile(program, '#!/bin/sh\n')
    await chmod(program, 0o755)
    process.env['PATH'] = folder
    delete process.env['LONGHAUL_POLICY_URL']
  })
  afterEach(() => {
    delete process.env['LONGHAUL_POLICY_URL']
  })
  after(async () => {
    process.env['PATH'] = PATH
    if (LONGHAUL_POLICY_URL !== undefined) process.env['LONGHAUL_POLICY_URL'] = LONGHAUL_POLICY_URL
    await rm(folder, { recursive: true })
  })

  const policyServerOf = async (...set: string[]) => {
    const { loaded } = await readDemoRecipe({ recipe: 'demo', set }, console)
    return loaded.recipe.policyServer
  }

  test('launches the machine’s own vLLM', async () => {
    const { kind, launch } = await policyServerOf('policyServer.kind=vllm')
    assert.equal(kind, 'vllm')
    assert.deepEqual([launch?.replicas, launch?.program, launch?.arguments], [1, join(folder, 'vllm'), []])
  })

  test('launches none where one runs, or where the caller says how', async () => {
    const url = 'policyServer.url=http://127.0.0.1:8000'
    assert.equal((await policyServerOf('policyServer.kind=vllm', url)).launch, null)
    const said = await policyServerOf('policyServer.kind=vllm', 'policyServer.launch.program=/opt/vllm')
    assert.equal(said.launch?.program, '/opt/vllm')
    process.env['LONGHAUL_POLICY_URL'] = 'http://127.0.0.1:8000'
    assert.equal((await policyServerOf('policyServer.kind=vllm')).launch, null)
  })

  test('leaves the embedded server as it is', async () => {
    const { kind, launch } = await policyServerOf('rft.tasks=12')
    assert.deepEqual([kind, launch], ['embedded', null])
  })
})
