import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isLonghaulError } from '../contracts/errors.ts'
import { systemPrompt } from './observation.ts'
import { scaffoldProfile } from './profiles.ts'

const TOOL_NAMES = ['create', 'edit', 'goto', 'open', 'replace', 'scroll_down', 'scroll_up', 'search_file', 'submit']

test('the full prompt explains every tool, in alphabetical order', () => {
  const prompt = scaffoldProfile('paper').systemPrompt
  const places = TOOL_NAMES.map((name) => prompt.search(new RegExp(`^${name}\\b`, 'm')))
  assert.ok(places.every((place) => place > 0))
  assert.deepEqual(
    places,
    places.toSorted((a, b) => a - b),
  )
})

/** What the system prompt of arXiv 2508.03501 must say (appendix F), one phrase of each section. */
const SAID = [
  ['works alone and resolves the issue', 'software engineer who works alone'],
  ['a terminal is the only means', 'You act only through a terminal'],
  ['scripts may be written and run', 'You may write Python scripts'],
  ['missing packages may be installed', 'you may install it'],
  ['a machine is on the other side', 'Ask no questions'],
  ['the special command ends the session', 'run the command `submit`. It ends the session.'],
  ['indentation is exact', 'exactly the blanks that the surrounding code calls for'],
  ['the prompt line is shown', '(Current directory: /testbed, current file: none) bash-$'],
  ['the first message is the issue', 'The first message holds the issue'],
  ['reasoning and one block', 'exactly one command block'],
  ['two examples of an answer', 'search_file "def parse_header"'],
  ['two blocks are an error', 'An answer with two command blocks is an error'],
  ['tests of the repository stay', 'Never change tests of the repository and never add tests to it'],
  ['steps of the work', 'Reproduce the error with a small script'],
  ['existing tests are run before the end', 'Run the existing tests near the change, then submit.'],
]

test('the full prompt contains all of the paper’s, its sections in order and separated by blank lines', () => {
  const prompt = scaffoldProfile('paper').systemPrompt
  for (const [what, phrase] of SAID) assert.ok(prompt.includes(phrase ?? ''), what)
  const headings = ['\n\nTOOLS\n', '\n\nRESPONSES\n', '\n\nANSWERS\n', '\n\nTESTS\n', '\n\nADVICE\n']
  const places = headings.map((heading) => prompt.indexOf(heading))
  assert.ok(places.every((place) => place > 0))
  assert.deepEqual(
    places,
    places.toSorted((a, b) => a - b),
  )
})

test('windows, paths and limits of the two profiles equal those of recorded episodes', () => {
  const { systemPrompt: _full, demonstration, ...paper } = scaffoldProfile('paper')
  assert.deepEqual(paper, {
    name: 'paper',
    firstMessage: 'full',
    tools: { windowLines: 100, windowOverlap: 2, pathForm: 'absolute' },
    observationChars: 16_000,
  })
  assert.ok(demonstration?.startsWith('DEMONSTRATION'))
  assert.deepEqual(scaffoldProfile('demo'), {
    name: 'demo',
    systemPrompt: 'Fix the bug. One command per turn.',
    demonstration: null,
    firstMessage: 'brief',
    tools: { windowLines: 6, windowOverlap: 1, pathForm: 'relative' },
    observationChars: 900,
  })
})

test('the demonstration follows the prompt after a blank line', () => {
  const paper = scaffoldProfile('paper')
  const shown = systemPrompt({ profile: paper, withDemonstration: true })
  assert.equal(shown, `${paper.systemPrompt}\n\n${paper.demonstration}`)
})

test('the demonstration is appended only on request and only when the profile has one', () => {
  const paper = scaffoldProfile('paper')
  assert.equal(systemPrompt({ profile: paper, withDemonstration: false }), paper.systemPrompt)
  assert.ok(systemPrompt({ profile: paper, withDemonstration: true }).endsWith('</agent>'))
  const demo = scaffoldProfile('demo')
  assert.equal(systemPrompt({ profile: demo, withDemonstration: true }), demo.systemPrompt)
})

test('refuses an unknown profile and lists the existing names', () => {
  assert.throws(
    () => scaffoldProfile('constructor'),
    (error) => isLonghaulError(error) && error.code === 'Config.Invalid' && error.message.includes('paper, demo'),
  )
})
