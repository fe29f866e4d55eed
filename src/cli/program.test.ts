import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Command } from 'commander'
import { COMPLETE } from './arguments/completion-scripts.ts'
import { createProgram } from './program.ts'

const context = {
  console: { out: () => {}, err: () => {}, record: () => {}, command: () => {}, terminal: null },
  exit: () => {},
}
const whole = await createProgram(context)

function namesOf(program: Command): string[] {
  return program.commands.map((command) => command.name())
}

test('a first word that names a command: it alone is registered, with the help that it has among all', async () => {
  assert.ok(whole.commands.length > 30)
  for (const command of whole.commands.filter((one) => one.name() !== COMPLETE)) {
    const program = await createProgram(context, [command.name(), '--help'])
    assert.deepEqual(namesOf(program), [command.name()])
    assert.equal(program.commands[0]?.helpInformation(), command.helpInformation())
  }
})

test('help, mistakes and completion: every command is registered', async () => {
  for (const args of [[], ['--help'], ['help', 'run'], ['trian'], ['toString'], [COMPLETE, 'bash', 'tr']]) {
    assert.deepEqual(namesOf(await createProgram(context, args)), namesOf(whole), args.join(' '))
  }
})

test('no option names two defaults, or an empty list as one', () => {
  const faulty: string[] = []
  const look = (command: Command): void => {
    for (const { flags, description, defaultValue, defaultValueDescription } of command.options) {
      if (defaultValue === undefined) continue
      const isShown = defaultValueDescription !== undefined || !Array.isArray(defaultValue) || defaultValue.length > 0
      if (!isShown || description.includes('(default')) faulty.push(`${command.name()} ${flags}`)
    }
    command.commands.forEach(look)
  }
  look(whole)
  assert.deepEqual(faulty, [])
})
