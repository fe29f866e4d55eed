/** The audit is worth what it would notice: each way of running in the wrong world is made here once. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AuditEntry } from './audit-log.ts'
import { auditWorlds, type CommandTurns, type WorldsInput } from './audit-worlds.ts'
import type { ContainerJournal } from './container-journal.ts'

const EPISODE = 'run/eval/0000/task/00'
/** Turn 1 had no command: the reply held none. */
const COMMANDS: CommandTurns = new Map([
  [0, 'a'],
  [2, 'c'],
  [3, 'd'],
])

let clock = 0
const at = (): { atMs: number; process: string } => ({ atMs: ++clock, process: 'sandbox' })
const opened = (container: string): AuditEntry => ({
  ...at(),
  kind: 'opened',
  episode: EPISODE,
  placement: 1,
  container,
})
const turn = (container: string, number: number, token: string, code: string | null = null): AuditEntry[] => [
  { ...at(), kind: 'turn-begins', container, turn: number, token, fence: 1 },
  { ...at(), kind: 'turn-ends', container, turn: number, token, code },
]
const begun = (container: string, number: number, token: string): AuditEntry[] =>
  turn(container, number, token).slice(0, 1)

function audit(entries: AuditEntry[], journals: ContainerJournal[] = []): string[] {
  const commandsOf: WorldsInput['commandsOf'] = (episode) => (episode === EPISODE ? COMMANDS : null)
  return auditWorlds({ entries, journals, commandsOf })
}

test('accepts turns that ran in order in one container or were replayed in the next', () => {
  const first = [opened('x'), ...turn('x', 0, 'a'), ...turn('x', 2, 'c')]
  const second = [opened('y'), ...turn('y', 0, 'a'), ...turn('y', 2, 'c'), ...turn('y', 3, 'd')]
  assert.deepEqual(audit([...first, ...second]), [])
})

test('reports a turn that was executed in a fresh container', () => {
  const found = audit([opened('x'), ...turn('x', 0, 'a'), opened('y'), ...turn('y', 2, 'c')])
  assert.deepEqual(found, [`${EPISODE} turn 2 was executed in y, which has not executed turn 0`])
})

test('reports a turn that the replay left out', () => {
  const found = audit([opened('y'), ...turn('y', 0, 'a'), ...turn('y', 3, 'd')])
  assert.match(found.join(), /turn 3 was executed in y, which has not executed turn 2/)
})

test('accepts a refused turn that does not follow, since the sandbox did not change', () => {
  const refused = turn('y', 2, 'c', 'Sandbox.OutOfOrder')
  assert.deepEqual(audit([opened('y'), ...refused, ...turn('y', 0, 'a'), ...turn('y', 2, 'c')]), [])
})

test('reports a turn that follows a refused one', () => {
  const found = audit([opened('y'), ...turn('y', 0, 'a', 'Sandbox.Lost'), ...turn('y', 2, 'c')])
  assert.match(found.join(), /has not executed turn 0/)
})

test('accepts a turn that may have run before its worker died', () => {
  assert.deepEqual(audit([opened('x'), ...begun('x', 0, 'a'), ...turn('x', 2, 'c')]), [])
})

test('reports a container journal with a missing turn, another token or a repeated turn', () => {
  const journal = (done: ContainerJournal['done']): ContainerJournal[] => [{ episode: EPISODE, container: 'x', done }]
  const whole = [
    { turn: 0, token: 'a' },
    { turn: 2, token: 'c' },
  ]
  assert.deepEqual(audit([], journal(whole)), [])
  assert.match(audit([], journal(whole.slice(1))).join(), /turn 2 was executed in x, which has not executed turn 0/)
  assert.match(audit([], journal([{ turn: 0, token: 'b' }])).join(), /under b, its record says a/)
  assert.match(audit([], journal([...whole, { turn: 2, token: 'e' }])).join(), /turn 2 was executed 2 times/)
})

test('ignores a container of another run', () => {
  assert.deepEqual(
    audit([], [{ episode: 'other/eval/0000/task/00', container: 'x', done: [{ turn: 5, token: 'q' }] }]),
    [],
  )
})
