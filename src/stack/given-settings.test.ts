import assert from 'node:assert/strict'
import { test } from 'node:test'
import { differingSettings, givenSettings } from './given-settings.ts'
import { WORKER_ROLES } from './services.ts'

const ENV = { PATH: '/bin', LONGHAUL_STACK: 'one', LONGHAUL_LEASE_S: '600', AWS_SECRET_ACCESS_KEY: 'hunter2' }

test('names changed, added and removed settings, and no other variable', () => {
  const before = givenSettings({ roles: WORKER_ROLES }, ENV)
  const { LONGHAUL_LEASE_S: _, ...without } = ENV
  const now = givenSettings(
    { roles: ['sandbox'] },
    { ...without, PATH: '/usr/bin', AWS_SECRET_ACCESS_KEY: 'hunter3', https_proxy: 'http://proxy:3128' },
  )
  assert.deepEqual(differingSettings(before, now), [
    '--roles',
    'AWS_SECRET_ACCESS_KEY',
    'LONGHAUL_LEASE_S',
    'https_proxy',
  ])
})

test('an empty variable is as good as none, the order of roles and the folder of the command make no difference', () => {
  const before = givenSettings({ roles: ['sandbox', 'control'] }, { ...ENV, LONGHAUL_RECIPES: 'mine' })
  const now = givenSettings(
    { roles: ['control', 'sandbox'] },
    { ...ENV, LONGHAUL_STACK: 'two', LONGHAUL_BUNDLE: '', LONGHAUL_RECIPES: `${process.cwd()}/mine` },
  )
  assert.deepEqual(differingSettings(before, now), [])
})

test('keeps no value', () => {
  assert.doesNotMatch(JSON.stringify(givenSettings({ roles: WORKER_ROLES }, ENV)), /hunter2|600/)
})
