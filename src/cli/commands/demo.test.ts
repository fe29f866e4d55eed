import assert from 'node:assert/strict'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { changeEnvironment, useEnvironment } from '../../../test/support/environment.ts'
import { createConsole } from '../output/console.ts'
import { readDemoRecipe } from './demo.ts'

describe('the demo with another sampler', () => {
  const console = createConsole()
  let folder: string
  let restore: () => void

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'longhaul-demo-'))
    const program = join(folder, 'vllm')
    await writeFile(program, '#!/bin/sh\n')
    await chmod(program, 0o755)
    restore = changeEnvironment({ PATH: folder, LONGHAUL_POLICY_URL: undefined })
  })
  after(async () => {
    restore()
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

  test('launches none where one runs, or where the caller says how', async (t) => {
    const url = 'policyServer.url=http://127.0.0.1:8000'
    assert.equal((await policyServerOf('policyServer.kind=vllm', url)).launch, null)
    const said = await policyServerOf('policyServer.kind=vllm', 'policyServer.launch.program=/opt/vllm')
    assert.equal(said.launch?.program, '/opt/vllm')
    useEnvironment(t, { LONGHAUL_POLICY_URL: 'http://127.0.0.1:8000' })
    assert.equal((await policyServerOf('policyServer.kind=vllm')).launch, null)
  })

  test('leaves the embedded server as it is', async () => {
    const { kind, launch } = await policyServerOf('rft.tasks=12')
    assert.deepEqual([kind, launch], ['embedded', null])
  })
})
