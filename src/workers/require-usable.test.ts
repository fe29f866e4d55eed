import assert from 'node:assert/strict'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { requireUsable } from './require-usable.ts'
import { ROLES, type Role } from './run-worker.ts'
import { readWorkerEnvironment } from './worker-environment.ts'

describe('settings of an environment', () => {
  let root: string
  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'require-usable-'))
    await writeFile(join(root, 'bundle.js'), '')
    await writeFile(join(root, 'program'), '')
    await chmod(join(root, 'program'), 0o755)
  })
  after(() => rm(root, { recursive: true, force: true }))

  const requireOf = (role: Role, env: NodeJS.ProcessEnv): Promise<void> =>
    requireUsable(
      [role],
      readWorkerEnvironment({ LONGHAUL_ARTIFACTS: '/a', LONGHAUL_CACHE: join(root, 'cache'), ...env }),
    )

  const UNUSABLE: readonly [name: string, value: string, roles: readonly Role[], reason: RegExp][] = [
    ['LONGHAUL_PYTHON', '/nope', ['trainer'], /\/nope: there is no such file$/],
    ['LONGHAUL_PYTHON', 'no-such-python', ['trainer'], /no-such-python: no directory of PATH/],
    ['LONGHAUL_PYTHON', '/etc', ['trainer'], /\/etc: it is not a file$/],
    ['LONGHAUL_WANDB_PYTHON', '/nope', ['trainer', 'artifacts'], /\/nope: there is no such file$/],
    ['LONGHAUL_ENGINES', '/proc/x', ['trainer'], /got \/proc\/x \(ENOENT\)/],
    ['LONGHAUL_CACHE', '/proc/x', ['sandbox', 'trainer'], /got \/proc\/x(?:\/engines)? \(ENOENT\)/],
    ['LONGHAUL_CACHE', '/dev/null', ['sandbox', 'trainer'], /got \/dev\/null(?:\/engines)? \((?:EEXIST|ENOTDIR)\)/],
    ['LONGHAUL_BUNDLE', '/nope', ['control'], /at \/nope: there is no such file$/],
    ['LONGHAUL_BUNDLE', '/etc', ['control'], /at \/etc: it is a directory$/],
    ['LONGHAUL_RECIPES', '/nope', ['control'], /\/nope is not a directory$/],
  ]

  for (const [name, value, roles, reason] of UNUSABLE) {
    test(`${name}=${value}: it is refused by ${roles.join(' and ')} and ignored by the others`, async () => {
      for (const role of ROLES) {
        const required = requireOf(role, { [name]: value })
        if (!roles.includes(role)) await required
        else await assert.rejects(required, { code: /^Config\./, message: reason })
        if (roles.includes(role)) await assert.rejects(required, { message: new RegExp(name) })
      }
    })
  }

  test('refuses a directory for weights of a bucket that cannot be created', async () => {
    const bucket = { LONGHAUL_ARTIFACTS: 's3://bucket/prefix' }
    await assert.rejects(requireOf('trainer', { ...bucket, LONGHAUL_WEIGHTS: '/proc/x' }), {
      message: /LONGHAUL_WEIGHTS/,
    })
    await requireOf('trainer', { LONGHAUL_WEIGHTS: '/proc/x' })
  })

  test('starts every role when everything named exists, and creates directories', async () => {
    const env = {
      LONGHAUL_PYTHON: join(root, 'program'),
      LONGHAUL_WANDB_PYTHON: 'node',
      LONGHAUL_ENGINES: join(root, 'a/b/engines'),
      LONGHAUL_BUNDLE: join(root, 'bundle.js'),
      LONGHAUL_RECIPES: root,
    }
    for (const role of ROLES) await requireOf(role, env)
    // Launchers of clusters need no Python here.
    await requireOf('trainer', {})
  })
})
