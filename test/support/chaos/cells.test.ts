import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cellsOf, planSeed } from './cells.ts'
import { faultNamed, FAULTS } from './faults.ts'
import { PHASES } from './phases.ts'

test('200 seeds: every fault is planned at every phase at which it can strike', () => {
  const planned = new Set<string>()
  for (let seed = 1; seed <= 200; seed++) {
    for (const { fault, phase } of planSeed(seed).cells) planned.add(`${fault.name} × ${phase}`)
  }
  const all = cellsOf(FAULTS, PHASES).map(([{ name }, phase]) => `${name} × ${phase}`)
  assert.deepEqual(
    all.filter((cell) => !planned.has(cell)),
    [],
  )
})

test('a seed is planned twice: the same faults, phases and counts, so that what it found can be repeated', () => {
  for (const seed of [1, 5, 77]) assert.deepEqual(planSeed(seed), planSeed(seed))
})

test('faults that end a run or a host: alone in their run', () => {
  for (let seed = 1; seed <= 200; seed++) {
    const { cells } = planSeed(seed)
    assert.ok(cells.length >= 1)
    assert.ok(cells.length === 1 || cells.every(({ fault }) => fault.isAlone !== true))
  }
})

test('only training faults are asked for: every seed trains', () => {
  const faults = [faultNamed('kill-trainer'), faultNamed('kill-job')]
  const plans = [1, 2, 3, 4].map((seed) => planSeed(seed, faults))
  assert.ok(plans.every(({ kind, cells }) => kind === 'training' && cells.length === 1))
  assert.equal(new Set(plans.map(({ cells }) => `${cells[0]?.fault.name} ${cells[0]?.phase}`)).size, 4)
})
