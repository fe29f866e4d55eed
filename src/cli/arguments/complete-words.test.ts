import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Command } from 'commander'
import { createProgram } from '../program.ts'
import { completeWords } from './complete-words.ts'

const program = await createProgram({
  console: { out: () => {}, err: () => {}, record: () => {}, command: () => {}, terminal: null },
  exit: () => {},
})

function complete(line: string): string[] {
  return completeWords(program, line.split(' ')).candidates.map(({ value }) => value)
}

const liveOf = (line: string) => completeWords(program, line.split(' ')).live

/** Every command that users see, with the words that lead to it. */
function* commandsOf(command: Command, path: string[] = []): Generator<{ command: Command; path: string[] }> {
  yield { command, path }
  for (const child of command.createHelp().visibleCommands(command)) {
    if (child.name() !== 'help') yield* commandsOf(child, [...path, child.name()])
  }
}

test('every command and option that help shows is completed, and each choice of an option', () => {
  let commands = 0
  for (const { command, path } of commandsOf(program)) {
    commands += 1
    const help = command.createHelp()
    const line = [...path, ''].join(' ')
    const offered = complete(line)
    for (const child of help.visibleCommands(command))
      assert.ok(offered.includes(child.name()), `${line}${child.name()}`)
    const options = complete(`${line}-`)
    for (const option of help.visibleOptions(command)) {
      const name = option.long ?? option.short ?? ''
      assert.ok(options.includes(name), `${line}${name}`)
      if (option.argChoices !== undefined) {
        assert.deepEqual(complete(`${line}${name} `), option.argChoices)
        assert.deepEqual(complete(`${line}${name}=`), option.argChoices)
        assert.deepEqual(complete(`${line}${name} = `), option.argChoices)
      }
    }
  }
  assert.ok(commands > 50, `${commands} commands`)
})

test('hidden commands and options are left out', () => {
  assert.deepEqual(complete('dem'), [])
  assert.deepEqual(complete('__'), [])
  assert.deepEqual(complete('run status --dry'), [])
  assert.deepEqual(complete('run pause --dry'), ['--dry-run'])
})

test('what is typed already narrows the words; an option is offered once, one that repeats again', () => {
  assert.deepEqual(complete('eva'), ['evaluate'])
  assert.deepEqual(complete('run res'), ['resume'])
  assert.deepEqual(complete('train --js'), ['--json'])
  assert.deepEqual(complete('train --json --js'), [])
  assert.deepEqual(complete('train --set a=1 --se'), ['--seed', '--set'])
  assert.deepEqual(complete('train --seed 1 --see'), [])
})

test('values are of what is being typed, not of what stands before it', () => {
  assert.deepEqual(complete('evaluate --once-per p'), ['pipeline'])
  assert.deepEqual(complete('evaluate --recipe mini --once-per c'), ['commit'])
  assert.deepEqual(complete('up --roles control s'), ['sandbox'])
  assert.deepEqual(complete('up --roles control --j'), ['--json'])
  assert.deepEqual(complete('completion '), ['bash', 'zsh', 'fish'])
  assert.deepEqual(complete('evaluate --policy '), ['base', 'promoted', 'kept'])
  // Not a subcommand: it stands after an argument.
  assert.deepEqual(complete('run status my-run li'), [])
  assert.deepEqual(complete('run status -- --js'), [])
})

test('every argument that names a run, a recipe or a schedule is asked for live', () => {
  const runs = [
    'report ',
    'view ',
    'run status ',
    'run blockers x',
    'ledger verify ',
    'compare ',
    'compare a ',
    'regrade ',
  ]
  for (const line of [...runs, 'predictions ', 'tasks difficulty ', 'tasks difficulty a b ', 'evaluate --baseline ']) {
    assert.equal(liveOf(line), 'runs', line)
  }
  for (const line of ['wait ', 'run pause ', 'run cancel ', 'run requeue ', 'run stop ', 'train --run ']) {
    assert.equal(liveOf(line), 'open runs', line)
  }
  for (const line of ['recipe check ', 'train --recipe ', 'train --recipe=', 'init --from ', 'tasks gate ']) {
    assert.equal(liveOf(line), 'recipes', line)
  }
  for (const line of ['host drain ', 'host uncordon ']) assert.equal(liveOf(line), 'hosts', line)
  for (const line of ['schedule trigger ', 'schedule delete ']) assert.equal(liveOf(line), 'schedules', line)
  for (const line of [
    'schedule create ',
    'run status x ',
    'train ',
    'reap --host ',
    'run requeue r ',
    'train --junit ',
  ]) {
    assert.equal(liveOf(line), null, line)
  }
})

test('words that no command knows, and none at all: an answer all the same', () => {
  for (const line of ['', 'nothing here ', '--what ', 'train --nothing x ', '= ', '-- ']) complete(line)
  assert.ok(complete('').includes('up'))
  assert.deepEqual(completeWords(program, []).candidates.length > 10, true)
})
