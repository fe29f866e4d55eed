/** The worked example in the prompt, played in a real sandbox: a policy that imitates it must meet the messages that it was shown. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { firstMessage, observationText, parseReply } from '../../src/scaffold/observation.ts'
import { scaffoldProfile } from '../../src/scaffold/profiles.ts'
import { createPlayer, createSandboxFixture, never, type Player, type SandboxFixture } from './sandbox-fixture.ts'

const REPO_DIR = '/testbed'
const TIMEOUT_MS = 20_000
const profile = scaffoldProfile('paper')

let fixture: SandboxFixture
let player: Player

before(async () => {
  fixture = await createSandboxFixture('demonstration', { 'README.md': 'Nothing yet.\n' })
  const input = fixture.openInput({ tools: profile.tools })
  player = createPlayer(fixture.host, await fixture.host.open(input, never))
})

after(() => fixture?.dispose())

test('the real tools print every message of the demonstration for its commands', async () => {
  const [first, ...session] = messages(profile.demonstration ?? '')
  assert.equal(first?.by, 'environment')
  const statement = /^The issue to resolve:\n\n(.+)\n/.exec(first?.text ?? '')?.[1] ?? ''
  const state = { cwd: REPO_DIR, openFile: null }
  assert.equal(first?.text, firstMessage({ profile, repoDir: REPO_DIR, statement, state }))
  const said: string[] = []
  for (const [at, { by, text }] of session.entries()) {
    if (by === 'environment') continue
    const { command } = parseReply(text)
    assert.ok(command !== null, text)
    const result = await player.play(command, { timeoutMs: TIMEOUT_MS })
    said.push(command)
    const shown = session[at + 1]
    if (shown === undefined) {
      assert.equal(result.state.submitted, true)
      continue
    }
    assert.equal(shown.by, 'environment')
    assert.equal(shown.text, observationText({ profile, repoDir: REPO_DIR, result, timeoutMs: TIMEOUT_MS }), command)
  }
  assert.equal(said.at(-1), 'submit')
  for (const tool of ['create', 'edit', 'python3'])
    assert.ok(
      said.some((command) => command.startsWith(tool)),
      tool,
    )
})

function messages(demonstration: string): { by: string; text: string }[] {
  return [...demonstration.matchAll(/<(environment|agent)>\n([\s\S]*?)\n<\/\1>/g)].map(([, by = '', text = '']) => ({
    by,
    text,
  }))
}
