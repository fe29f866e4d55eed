import assert from 'node:assert/strict'
import { test } from 'node:test'
import { longhaul } from '../../../test/support/command-line.ts'
import { useEnvironment } from '../../../test/support/environment.ts'
import { ENVIRONMENT } from './environment-example.ts'
import { misspeltVariables, SET_FOR_PEOPLE } from './misspelt-variables.ts'

test('a variable with nearly a name of ours is reported with that name', () => {
  for (const [name, near] of [
    ['LONGHAUL_ARTIFACT', 'LONGHAUL_ARTIFACTS'],
    ['LONGHAUL_ARTEFACTS', 'LONGHAUL_ARTIFACTS'],
    ['LONGHUAL_HOME', 'LONGHAUL_HOME'],
    ['LONGHAUL_SANDBOXS', 'LONGHAUL_SANDBOXES'],
    ['TEMPORAL_ADRESS', 'TEMPORAL_ADDRESS'],
    ['LONGHAUL_POLICY_URI', 'LONGHAUL_POLICY_URL'],
  ] as const)
    assert.deepEqual(misspeltVariables({ [name]: 'x' }), [{ name, near }])
})

test('no variable of ours, of an operator or of another program is reported', () => {
  const known = ENVIRONMENT.flatMap(({ variables }) => variables.map(({ name }) => name))
  const own = ['LONGHAUL_WEBHOOK_KEY', 'LONGHAUL_CHROMIUM', 'LONGHAUL_TEST_SHARED', 'LONGHAUL_PEFT_PACKAGE']
  const others = ['PATH', 'LOGNAME', 'LONG_BIT', 'TEMPLATE_HOME', 'LOCAL_RANK', 'TEMP', 'TEMPORAL_CLOUD_OPS_API']
  for (const name of [...known, ...SET_FOR_PEOPLE, ...own, ...others])
    assert.deepEqual(misspeltVariables({ [name]: 'x' }), [], name)
})

/** The story: LONGHAUL_ARTIFACT named a bucket, and `longhaul recipe push` stored the recipe in the local stack's directory. */
test('a command warns on stderr and leaves its result alone', async (t) => {
  useEnvironment(t, { LONGHAUL_ARTIFACT: 's3://records/lab' })
  const { exitCode, stdout, stderr } = await longhaul('recipe', 'schema', '--json')
  assert.equal(exitCode, 0)
  assert.doesNotThrow(() => JSON.parse(stdout) as object)
  assert.equal(
    stderr,
    'warning: LONGHAUL_ARTIFACT in the environment is not a variable of Longhaul and is ignored; did you mean LONGHAUL_ARTIFACTS?\n',
  )
})
