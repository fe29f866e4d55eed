import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nearestName, nearNames } from './near-names.ts'

// A name of three to five letters may have one mistake, one of six two.
const CASES: [mistake: string, name: string, candidate: string, isNear: boolean][] = [
  ['no mistake', 'train', 'train', true],
  ['a wrong letter', 'trein', 'train', true],
  ['a missing letter', 'trin', 'train', true],
  ['a missing first letter', 'rain', 'train', true],
  ['a missing last letter', 'trai', 'train', true],
  ['a letter too many', 'traiin', 'train', true],
  ['a letter too many at the beginning', 'xgo', 'go', true],
  ['a missing letter before the only one', 'a', 'ba', true],
  ['two letters too many at the end', 'trainxy', 'train', true],
  ['two missing letters', 'tan', 'train', false],
  ['swapped neighbours', 'trian', 'train', true],
  ['swapped first letters', 'rtain', 'train', true],
  ['swapped last letters', 'trani', 'train', true],
  ['letters swapped across another', 'tarin', 'train', true],
  ['swapped letters with one between them', 'rat', 'tar', false],
  ['a letter that moved before a wrong one', 'xa', 'ay', false],
  ['a letter that moved behind a wrong one', 'ax', 'ya', false],
  ['two wrong neighbours', 'trxyn', 'train', false],
  ['a wrong letter before a right one', 'xrain', 'train', true],
  ['a neighbour repeated in place of another', 'aab', 'bba', false],
  ['two wrong letters of six', 'xxenda', 'agenda', true],
  ['three wrong letters of six', 'xxxnda', 'agenda', false],
  ['two pairs of swapped neighbours', 'gaedna', 'agenda', true],
  ['another case', 'TRAIN', 'train', true],
  ['another case of the candidate', 'train', 'TRAIN', true],
  ['one of two letters wrong', 'gu', 'go', true],
  ['no letter in common', 'ab', 'cd', false],
]

for (const [mistake, name, candidate, isNear] of CASES) {
  test(`${name} is ${isNear ? 'near' : 'not near'} to ${candidate}: ${mistake}`, () => {
    assert.equal(nearestName(name, [candidate]), isNear ? candidate : null)
  })
}

test('the nearest of several names is the one with the fewest mistakes', () => {
  assert.equal(nearestName('agende', ['genda', 'agenda', 'agent']), 'agenda')
})

test('lists near names from the nearest on, those equally near in the given order', () => {
  const names = ['bgendb', 'agendc', 'other', 'agenda', 'agendb']
  assert.deepEqual(nearNames('agenda', names), ['agenda', 'agendc', 'agendb', 'bgendb'])
})

test('lists no more near names than asked for', () => {
  assert.deepEqual(nearNames('agenda', ['agendb', 'agenda', 'agendc'], 2), ['agenda', 'agendb'])
})
