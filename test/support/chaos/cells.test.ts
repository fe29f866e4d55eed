import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cellsOf, planSeed, visitCounts } from './cells.ts'
import { faultNamed, FAULTS, faultsNamed, faultsOn } from './faults.ts'
import { type Phase, PHASES, RESTART_PHASES, TRAINING_PHASES, type Visit } from './phases.ts'

test('300 seeds plan every fault at every phase where it can be injected', () => {
  const planned = new Set<string>()
  for (let seed = 1; seed <= 300; seed++) {
    for (const { fault, phase } of planSeed(seed).cells) planned.add(`${fault.name} × ${phase}`)
  }
  const all = cellsOf(FAULTS, PHASES).map(([{ name }, phase]) => `${name} × ${phase}`)
  assert.deepEqual(
    all.filter((cell) => !planned.has(cell)),
    [],
  )
})

test('seeds on a bucket plan evaluations only, with every bucket fault at every phase of an episode', () => {
  const faults = faultsOn('s3')
  const planned = new Set<string>()
  for (let seed = 1; seed <= 250; seed++) {
    const { kind, cells } = planSeed(seed, faults)
    assert.equal(kind, 'evaluation')
    for (const { fault, phase } of cells) planned.add(`${fault.name} × ${phase}`)
  }
  assert.deepEqual(new Set(cellsOf(faults, PHASES).map(([{ name }, phase]) => `${name} × ${phase}`)), planned)
  assert.ok(![...planned].some((cell) => /^disk-full|^disk-read|^fail-restart:store|× training/.test(cell)))
  for (const fault of ['store-503', 'store-gone', 'store-stale-listing', 'torn-record', 'database-lost']) {
    assert.ok(planned.has(`${fault} × executed`), fault)
  }
})

test('seeds in pods plan evaluations only, with every cluster fault while an agent has a pod', () => {
  const faults = faultsOn('pods')
  const planned = new Set<string>()
  for (let seed = 1; seed <= 60; seed++) {
    const { kind, cells } = planSeed(seed, faults)
    assert.equal(kind, 'evaluation')
    for (const { fault, phase } of cells) planned.add(`${fault.name} × ${phase}`)
  }
  assert.deepEqual(new Set(cellsOf(faults, PHASES).map(([{ name }, phase]) => `${name} × ${phase}`)), planned)
  for (const fault of ['eviction', 'pod-delete', 'node-loss', 'api-server-frozen', 'kill-sandbox']) {
    for (const phase of ['sampling', 'executing', 'closing']) assert.ok(planned.has(`${fault} × ${phase}`), fault)
  }
  assert.ok(
    ![...planned].some((cell) => /^(engine|container|disk|store)-|(pod-delete|eviction|node-loss) × gra/.test(cell)),
  )
})

test('planning a seed twice gives the same faults, phases and counts', () => {
  for (const seed of [1, 5, 77]) assert.deepEqual(planSeed(seed), planSeed(seed))
})

test('a fault that ends a run or a host is the only one of its run', () => {
  for (let seed = 1; seed <= 200; seed++) {
    const { cells } = planSeed(seed)
    assert.ok(cells.length >= 1)
    assert.ok(cells.length === 1 || cells.every(({ fault }) => fault.isAlone !== true))
  }
})

test('a run has parts exactly when its faults need parts', () => {
  for (let seed = 1; seed <= 300; seed++) {
    const { inParts, cells } = planSeed(seed)
    const wanted = cells.map(({ fault, phase }) => phase === 'parting' || fault.needsParts === true)
    assert.deepEqual([...new Set(wanted)], [inParts], `seed ${seed}`)
  }
})

test('a run with an empty account at capture or grading trains, so that it has to sample again', () => {
  for (let seed = 1; seed <= 300; seed++) {
    const { kind, cells } = planSeed(seed)
    const isLate = ({ fault, phase }: (typeof cells)[number]): boolean =>
      fault.name === 'fail-restart:account' && ['capturing', 'grading'].includes(phase)
    if (cells.some(isLate)) assert.equal(kind, 'training', `seed ${seed}`)
  }
})

test('every seed trains when only training faults are requested', () => {
  const faults = [faultNamed('kill-trainer'), faultNamed('kill-job')]
  const plans = [1, 2, 3, 4].map((seed) => planSeed(seed, faults))
  assert.ok(plans.every(({ kind, cells }) => kind === 'training' && cells.length >= 1))
  const played = plans.flatMap(({ cells }) => cells.map(({ fault, phase }) => `${fault.name} ${phase}`))
  assert.equal(new Set(played).size, 4)
})

const visitsAt = (...phases: Phase[]): Visit[] =>
  phases.map((phase) => ({ phase, process: 'sandbox', episode: null, container: null, key: null }))

test('a fault can be injected at every visit of a phase, from the first to the last', () => {
  const undisturbed = visitsAt('placing', 'sampling', 'executing', 'sampling', 'sampling', 'grading')
  const counts = (nth: number): number[] => visitCounts([{ phase: 'sampling', nth, fault: {} }], undisturbed)
  assert.deepEqual([0, 0.34, 0.67, 0.99].map(counts), [[1], [2], [3], [3]])
})

test('the first of two faults leaves room for the second, whose visits count from the first one', () => {
  const undisturbed = visitsAt('sampling', 'grading', 'sampling', 'sampling', 'grading', 'sampling')
  const both = (first: number, second: number): number[] =>
    visitCounts(
      [
        { phase: 'sampling', nth: first, fault: {} },
        { phase: 'grading', nth: second, fault: {} },
      ],
      undisturbed,
    )
  assert.deepEqual(both(0, 0.99), [1, 2])
  // The fourth sampling has no grading after it.
  assert.deepEqual(both(0.99, 0), [3, 1])
})

/** What ends one workflow where its parents meet that alike at every moment. */
const AMID = /^terminate-one:(stage|group|episode)$/

test('a run is ended at each of the named moments, in every way', () => {
  const ways = [
    'terminate-root',
    'terminate-all',
    'cancel-restart',
    'reset',
    'terminate-one',
    'fail-restart',
    'database-lost',
    'stack-kill',
  ]
  const families = ways.map(faultsNamed)
  assert.ok(families.every((family) => family.length > 0))
  const levels = ['stage', 'rollout', 'part', 'group', 'episode']
  for (const how of ['terminate', 'cancel'])
    assert.deepEqual(
      faultsNamed(`${how}-one`).map(({ name }) => name),
      levels.map((level) => `${how}-one:${level}`),
    )
  for (const { name, phases, expects } of families.flat().filter((fault) => !AMID.test(fault.name))) {
    // A full store ends no training: the job waits for room, as `disk-full` shows there.
    const named = /^(terminate-one:(rollout|part)|reset:part)$/.test(name)
      ? RESTART_PHASES.filter((phase) => !TRAINING_PHASES.some((one) => one === phase))
      : RESTART_PHASES.filter((phase) => name !== 'fail-restart:store' || phase !== 'training')
    assert.deepEqual([name, phases, expects], [name, named, 'restarted'])
  }
  assert.ok(faultsNamed('disk-full').some(({ phases }) => phases.includes('training')))
  assert.deepEqual(
    faultsNamed('reset').map(({ name }) => name),
    ['root', 'stage', 'rollout', 'part', 'group', 'episode'].map((level) => `reset:${level}`),
  )
})
