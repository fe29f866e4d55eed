import assert from 'node:assert/strict'
import { test } from 'node:test'

import { pinnedCliVersion } from './temporal-cli.ts'

test('the tool module pins a release of the CLI', async () => {
  assert.match(await pinnedCliVersion(), /^\d+\.\d+\.\d+$/)
})
