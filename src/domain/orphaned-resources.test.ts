import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decideReap, judgeOwner, type OrphanedResourceFacts } from './orphaned-resources.ts'

const REAPER = { host: 'h1', namespaceId: 'ns-1' }
const HOUR_MS = 3_600_000

function facts(changes: Partial<OrphanedResourceFacts> = {}): OrphanedResourceFacts {
  return {
    kind: 'container',
    role: 'agent',
    namespaceId: 'ns-1',
    host: 'h1',
    ageMs: 60_000,
    leaseMs: 600_000,
    maxLifeMs: 6 * HOUR_MS,
    state: 'running',
    endedForMs: null,
    endedByLease: false,
    ...changes,
  }
}

const TABLE: [string, Partial<OrphanedResourceFacts>, string][] = [
  ['ours and running', {}, 'ask-owner'],
  ['ours and running past its first lease', { ageMs: HOUR_MS }, 'ask-owner'],
  ['ours past its maximum life', { ageMs: 7 * HOUR_MS }, 'remove past-max-life'],
  ['of another stack', { namespaceId: 'ns-2' }, 'keep other-stack'],
  ['of another stack and past its maximum life', { namespaceId: 'ns-2', ageMs: 70 * HOUR_MS }, 'keep other-stack'],
  [
    'of another stack and ended a moment ago',
    { namespaceId: 'ns-2', state: 'ended', endedForMs: 1000 },
    'keep other-stack',
  ],
  // A database was lost, or its stack is gone: its own reaper would have removed these.
  [
    'of another stack and ended long ago',
    { namespaceId: 'ns-2', state: 'ended', endedForMs: HOUR_MS },
    'remove lease-over',
  ],
  [
    'of another stack and ended by its lease',
    { namespaceId: 'ns-2', state: 'ended', endedForMs: 0, endedByLease: true },
    'remove lease-over',
  ],
  [
    'of another stack, created a lease ago and never started',
    { namespaceId: 'ns-2', state: 'created', ageMs: 600_001 },
    'remove never-started',
  ],
  [
    'of another stack on another host and ended long ago',
    { namespaceId: 'ns-2', host: 'h2', state: 'ended', endedForMs: HOUR_MS },
    'keep other-host',
  ],
  ['of another host', { host: 'h2' }, 'keep other-host'],
  ['of another host and past its maximum life', { host: 'h2', ageMs: 70 * HOUR_MS }, 'keep other-host'],
  ['ended a moment ago by a kill', { state: 'ended', endedForMs: 1000 }, 'ask-owner'],
  ['ended by a kill, a lease ago', { state: 'ended', endedForMs: 600_001 }, 'remove lease-over'],
  ['ended by its own lease', { state: 'ended', endedForMs: 0, endedByLease: true }, 'remove lease-over'],
  ['created a moment ago', { state: 'created' }, 'ask-owner'],
  ['created a lease ago and never started', { state: 'created', ageMs: 600_001 }, 'remove never-started'],
  ['owned by a process, not by a workflow', { namespaceId: '' }, 'keep owner-is-no-workflow'],
  ['owned by a process and past its maximum life', { namespaceId: '', ageMs: 7 * HOUR_MS }, 'remove past-max-life'],
  [
    'without labels of time',
    { namespaceId: '', leaseMs: Infinity, maxLifeMs: Infinity, ageMs: 1e12 },
    'keep owner-is-no-workflow',
  ],
  ['a build under way', { role: 'build', namespaceId: '', ageMs: 1000 }, 'keep young-build'],
  ['a build of a killed process', { role: 'build', namespaceId: '', ageMs: 1_200_001 }, 'remove abandoned-build'],
  ["another host's old build", { role: 'build', namespaceId: '', host: 'h2', ageMs: 600_001 }, 'keep other-host'],
  ['a network of ours', { kind: 'network', state: 'ready' }, 'ask-owner'],
  [
    'a volume of ours past its maximum life',
    { kind: 'volume', state: 'ready', ageMs: 7 * HOUR_MS },
    'remove past-max-life',
  ],
]

for (const [what, changes, expected] of TABLE) {
  test(`${what}: ${expected}`, () => {
    const decision = decideReap(facts(changes), REAPER)
    assert.equal(decision.kind === 'ask-owner' ? 'ask-owner' : `${decision.kind} ${decision.why}`, expected)
  })
}

test('keeps every resource of a namespace while the own namespace is unknown, even past its maximum life', () => {
  const reaper = { host: 'h1', namespaceId: null }
  assert.deepEqual(decideReap(facts({ ageMs: 70 * HOUR_MS }), reaper), { kind: 'keep', why: 'namespace-unknown' })
  assert.deepEqual(decideReap(facts({ namespaceId: '', ageMs: 70 * HOUR_MS }), reaper), {
    kind: 'remove',
    why: 'past-max-life',
  })
})

const placement = { role: 'agent', ownerRun: 'r1', hasNewerPlacement: false }

test('keeps resources of a running or unanswered owner and removes those of a closed or unknown one', () => {
  assert.deepEqual(judgeOwner({ kind: 'running', runId: 'r1' }, placement), { kind: 'keep', why: 'owner-runs' })
  assert.deepEqual(judgeOwner({ kind: 'closed' }, placement), { kind: 'remove', why: 'owner-closed' })
  assert.deepEqual(judgeOwner({ kind: 'unknown' }, placement), { kind: 'remove', why: 'owner-unknown' })
  assert.deepEqual(judgeOwner(null, placement), { kind: 'keep', why: 'owner-unanswered' })
})

test('removes a resource whose owner has placed the episode again, but only in the same execution', () => {
  const older = { ...placement, hasNewerPlacement: true }
  assert.deepEqual(judgeOwner({ kind: 'running', runId: 'r1' }, older), { kind: 'remove', why: 'superseded' })
  assert.deepEqual(judgeOwner({ kind: 'running', runId: 'r2' }, older), { kind: 'keep', why: 'owner-runs' })
  assert.deepEqual(judgeOwner({ kind: 'running', runId: 'r1' }, { ...older, role: 'grader' }), {
    kind: 'keep',
    why: 'owner-runs',
  })
})

const AT_THE_LIMIT: [string, Partial<OrphanedResourceFacts>, string][] = [
  ['a build of exactly its longest life', { role: 'build', namespaceId: '', ageMs: 1_200_000 }, 'keep young-build'],
  ['of exactly its maximum life', { ageMs: 6 * HOUR_MS }, 'ask-owner'],
  ['ended exactly a lease ago', { state: 'ended', endedForMs: 600_000 }, 'ask-owner'],
  ['created exactly a lease ago', { state: 'created', ageMs: 600_000 }, 'ask-owner'],
  ['running, however it ended before', { state: 'running', endedByLease: true, endedForMs: HOUR_MS }, 'ask-owner'],
  ['without a host label', { host: '' }, 'ask-owner'],
]
for (const [what, changes, expected] of AT_THE_LIMIT) {
  test(`${what}: ${expected}`, () => {
    const decision = decideReap(facts(changes), REAPER)
    assert.equal(decision.kind === 'ask-owner' ? 'ask-owner' : `${decision.kind} ${decision.why}`, expected)
  })
}
