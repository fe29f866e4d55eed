import assert from 'node:assert/strict'
import { test } from 'node:test'

import { findEpollWatches } from './docker-checks.ts'

const GIB = 1024 ** 3

test('a limit of epoll watches that one container can afford is a warning with the limit to set', () => {
  // The kernel's default for 24 GiB.
  const found = findEpollWatches(5_491_511, 24 * GIB)
  assert.equal(found.level, 'warn')
  const [, needed] = /^sysctl fs\.epoll\.max_user_watches=(\d+) /.exec(found.fix) ?? []
  assert.equal(findEpollWatches(Number(needed), 24 * GIB).level, 'ok')
  assert.equal(findEpollWatches(Number(needed), 48 * GIB).level, 'warn')
})
