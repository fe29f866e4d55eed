/**
 * Each lie that a healthy server can tell is found by the check that publishing has for it, and no honest server is refused. `npm run
 * bench:lying-servers` measures how often over many policies.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { HANG_MS } from '../../../test/support/hang.ts'
import { type LyingServers, type Server, SERVERS, startLyingServers } from '../../../test/support/lying-servers/lies.ts'
import { withoutPython } from '../../../test/support/python.ts'

describe('servers that misreport', { skip: withoutPython }, () => {
  let root = ''
  let servers: LyingServers | null = null

  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'lying-servers-'))
    servers = await startLyingServers({ root, pairs: 1, signal: AbortSignal.timeout(4 * HANG_MS) })
  })
  after(async () => {
    await servers?.stop()
    await rm(root, { recursive: true, force: true })
  })

  // The bench plays the others.
  const inBf16 = ['stale', 'half-load', 'top-p-80-hidden']
  const isPlayed = ({ dtype, caughtBy, faults }: Server): boolean =>
    dtype === 'float32' || caughtBy === null || faults.some((fault) => inBf16.includes(fault))
  for (const server of SERVERS.filter(isPlayed)) {
    const how = server.caughtBy === null ? 'passes' : `is refused by the ${server.caughtBy}`
    test(`${server.name}, ${server.dtype}: ${how}`, async () => {
      assert.equal(await servers?.check(server, 0), server.caughtBy)
    })
  }
})
