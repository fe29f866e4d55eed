import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isLonghaulError } from '../contracts/errors.ts'
import { scaffoldProfile, systemPrompt } from './profiles.ts'

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

test('the demonstration is appended only when asked for, and only where the profile has one', () => {
  const paper = scaffoldProfile('paper')
  assert.equal(systemPrompt({ profile: paper, withDemonstration: false }), paper.systemPrompt)
  assert.ok(systemPrompt({ profile: paper, withDemonstration: true }).endsWith('</agent>'))
  const demo = scaffoldProfile('demo')
  assert.equal(systemPrompt({ profile: demo, withDemonstration: true }), demo.systemPrompt)
})

test('an unknown profile is refused with the names that exist', () => {
  assert.throws(
    () => scaffoldProfile('constructor'),
    (error) => isLonghaulError(error) && error.code === 'Config.Invalid' && error.message.includes('paper, demo'),
  )
})
