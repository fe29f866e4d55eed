import assert from 'node:assert/strict'
import { test } from 'node:test'

import { isOlder } from './go-build.ts'
import { pinnedCliVersion } from './temporal-cli.ts'

test('Go versions: compared as numbers, with or without a prefix', () => {
  assert.equal(isOlder('go1.26.4', '1.26.4'), false)
  assert.equal(isOlder('go1.26.10', '1.26.4'), false)
  assert.equal(isOlder('go1.27', '1.26.4'), false)
  assert.equal(isOlder('go1.26.3', '1.26.4'), true)
  assert.equal(isOlder('go1.9.7', '1.26.4'), true)
})

test('the tool module pins a release of the CLI', async () => {
  assert.match(await pinnedCliVersion(), /^\d+\.\d+\.\d+$/)
})
