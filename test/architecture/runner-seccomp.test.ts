import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import type { SeccompRule } from '../../src/adapters/docker/engine/engine.ts'
import { runnerSeccompProfile } from '../support/kubernetes/seccomp-profile.ts'

const FILE = new URL('../../infra/kubernetes/runner-seccomp.json', import.meta.url)

test('the profile that operators install equals the one that sandboxes use', async () => {
  assert.deepEqual(JSON.parse(await readFile(FILE, 'utf8')), await runnerSeccompProfile())
})

test('the profile has no rule for other machines or dropped capabilities, and kubelets can read each rule', async () => {
  const { syscalls } = (await runnerSeccompProfile()) as { syscalls: SeccompRule[] }
  const allowed = (name: string): SeccompRule[] =>
    syscalls.filter(({ names, action }) => names.includes(name) && action === 'SCMP_ACT_ALLOW')
  for (const name of ['mount', 'bpf', 'reboot', 'open_by_handle_at', 'clone3', 's390_runtime_instr'])
    assert.deepEqual(allowed(name), [], name)
  assert.equal(allowed('arch_prctl').length, 1)
  assert.equal(allowed('clone').length, 1)
  assert.ok([...allowed('unshare'), ...allowed('setns')].every(({ args }) => args?.length === 1))
  const fields = new Set(syscalls.flatMap((rule) => Object.keys(rule)))
  assert.deepEqual([...fields].toSorted(), ['action', 'args', 'errnoRet', 'names'])
})
