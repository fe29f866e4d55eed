import assert from 'node:assert/strict'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'

import { exists } from '../../platform/files.ts'
import { runCommand, type CommandResult } from '../../platform/run-command.ts'
import { INSTALL_SCRIPT } from './system-packages.ts'

let folder: string
let policy: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'install-script-'))
  policy = join(folder, 'policy-rc.d')
  await program('dpkg', 'exit 0')
})
afterEach(() => rm(folder, { recursive: true, force: true }))

/** A stand-in for the distribution's program: the script under test is ours, the packages are not. */
async function program(name: string, body: string): Promise<void> {
  await writeFile(join(folder, name), `#!/bin/sh\necho "${name} $*" >> ${folder}/calls\n${body}\n`)
  await chmod(join(folder, name), 0o755)
}

function install({
  lists,
  timeoutMs = 20_000,
}: {
  lists: 'fresh' | 'stale'
  timeoutMs?: number
}): Promise<CommandResult> {
  return runCommand({
    command: 'sh',
    args: ['-c', INSTALL_SCRIPT, 'install', lists, 'docker.io'],
    env: { PATH: `${folder}:/usr/bin:/bin`, LONGHAUL_MARK: policy },
    timeoutMs,
  })
}

test('forbids services while apt runs, and removes the policy file afterwards', async () => {
  await program('apt-get', `case "$*" in *install*) "${folder}/policy-rc.d"; echo "$?" > ${folder}/answer ;; esac`)
  const { exitCode } = await install({ lists: 'stale' })
  assert.equal(exitCode, 0)
  assert.equal((await readFile(join(folder, 'answer'), 'utf8')).trim(), '101')
  assert.equal(await exists(policy), false)
})

test("restores the machine's own policy after a failed installation", async () => {
  await writeFile(policy, 'theirs')
  await program('apt-get', 'case "$*" in *install*) exit 100 ;; esac')
  const { exitCode } = await install({ lists: 'stale' })
  assert.equal(exitCode, 1)
  assert.equal(await readFile(policy, 'utf8'), 'theirs')
})

test('restores the policy when it is interrupted', async () => {
  await writeFile(policy, 'theirs')
  await program('apt-get', 'case "$*" in *install*) sleep 63 ;; esac')
  const { timedOut } = await install({ lists: 'stale', timeoutMs: 1_000 })
  assert.equal(timedOut, true)
  assert.equal(await readFile(policy, 'utf8'), 'theirs')
})

test("removes the policy of a killed installation and restores the machine's own", async () => {
  await writeFile(`${policy}.before-longhaul`, 'theirs')
  await writeFile(policy, '#!/bin/sh\n# longhaul: no services are started during this installation\nexit 101\n')
  await program('apt-get', 'exit 0')
  await install({ lists: 'fresh' })
  assert.equal(await readFile(policy, 'utf8'), 'theirs')
  assert.equal(await exists(`${policy}.before-longhaul`), false)
})

test('fetches lists and repeats an installation when the mirror has replaced the version', async () => {
  await program(
    'apt-get',
    `case "$*" in *update*) touch ${folder}/updated ;; *install*) [ -e ${folder}/updated ] || exit 100 ;; esac`,
  )
  const { exitCode } = await install({ lists: 'fresh' })
  assert.equal(exitCode, 0)
  const calls = (await readFile(join(folder, 'calls'), 'utf8')).split('\n').filter((line) => line.startsWith('apt-get'))
  assert.deepEqual(
    calls.map((line) => /update|install/.exec(line)?.[0]),
    ['install', 'update', 'install'],
  )
})
