/**
 * Duration texts are checked by the compiler: '5 mintues' must not build. The types of the package `ms` are not reachable
 * through its own `exports`, so without `paths.ms` in tsconfig.json every duration would silently become `any`, and a change
 * of hoisting could bring that back. `npm run check` compiles this file; an unused `@ts-expect-error` fails there.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { msToNumber } from '@temporalio/common'
import type { ActivityOptions } from '@temporalio/workflow'

const right: ActivityOptions = { startToCloseTimeout: '5 minutes' }
// @ts-expect-error a misspelt unit
const wrong: ActivityOptions = { startToCloseTimeout: '5 mintues' }

test('a misspelt duration is a type error before it is a run-time error', () => {
  assert.equal(msToNumber(right.startToCloseTimeout ?? 0), 300_000)
  assert.throws(() => msToNumber(wrong.startToCloseTimeout ?? 0))
})
