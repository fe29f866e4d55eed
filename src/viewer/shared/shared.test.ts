import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeRecord } from '../../../test/support/episode-records.ts'
import type { EpisodeRow } from '../pages.types.ts'
import { dataAddress, firstData, linkTo, readRoute } from './address.ts'
import { dataFile } from './data-file.ts'
import { diffLines } from './diff-lines.ts'
import { filterRows, NO_FILTER, readFilter, repositoryOf, writeFilter } from './filter-rows.ts'
import { isOutsideClip } from './token-clip.ts'
import { clipText, visibleParts } from './visible-text.ts'

function visibleText(text: string): string {
  return visibleParts(text)
    .map((part) => part.text)
    .join('')
}

test('escapes characters that a terminal or a browser would interpret', () => {
  assert.equal(visibleText('\x1b[31mred\x1b[0m'), '␛[31mred␛[0m')
  assert.equal(visibleText('\x1b]0;title\x07x'), '␛]0;title␇x')
  assert.equal(visibleText('a\u202eb\u2066c\u200bd'), 'a\\u{202e}b\\u{2066}c\\u{200b}d')
  assert.equal(visibleText('over\rwritten\b'), 'over␍written␈')
  assert.equal(visibleText('\u{e0041}\u3164\ud800'), '\\u{e0041}\\u{3164}\\u{d800}')
  assert.equal(visibleText('<b>&amp;</b>\tand\nlines é 漢字 👍'), '<b>&amp;</b>\tand\nlines é 漢字 👍')
  assert.deepEqual(
    visibleParts('a\u202eb').map(({ kind }) => kind),
    ['text', 'mark', 'text'],
  )
})

test('finds an unterminated sequence in linear time', () => {
  const text = '\x1b]'.repeat(200_000)
  assert.equal(visibleText(text).length, text.length)
})

test('cuts long lines and many lines and counts what is left out', () => {
  const cut = clipText(`${'x'.repeat(50)}\nshort\nthird`, { lines: 2, chars: 10 })
  assert.deepEqual(cut, { text: `${'x'.repeat(10)}…\nshort`, hidden: 40 + 'third'.length })
  assert.deepEqual(clipText('a\n'), { text: 'a\n', hidden: 0 })
})

test('numbers the lines of a patch, and treats a removed line that resembles a header as removed', () => {
  const lines = diffLines('--- a/f\n+++ b/f\n@@ -3,2 +3,2 @@\n x\n--- y\n+++ z\n')
  assert.deepEqual(
    lines.map(({ kind, before, after }) => [kind, before, after]),
    [
      ['file', null, null],
      ['file', null, null],
      ['hunk', null, null],
      ['context', 3, 3],
      ['removed', 4, null],
      ['added', null, 4],
    ],
  )
  assert.deepEqual(
    diffLines('no patch\n').map(({ kind }) => kind),
    ['plain'],
  )
})

function makeRow(fields: Partial<EpisodeRow>): EpisodeRow {
  const { episode, stage, iteration, taskId, index, signs } = makeRecord({ stage: 's', ...fields } as object)
  const none = { verdict: null, reason: null, failure: null, audit: null, sampledTokens: null, patchBytes: null }
  return {
    episode,
    stage,
    iteration,
    taskId,
    index,
    state: 'submitted',
    hack: false,
    signs,
    turns: 1,
    ...none,
    ...fields,
  }
}

test('a filter finds rows by any of its words and by flips within a group, and is restored from its address', () => {
  const rows = [
    makeRow({ taskId: 'o__n-1', index: 0, verdict: 'resolved' }),
    makeRow({ taskId: 'o__n-1', index: 1, verdict: 'unresolved', hack: true, signs: ['conftest'] }),
    makeRow({ taskId: 'o__m-2', index: 0, verdict: 'resolved' }),
    makeRow({ taskId: 'o__m-2', index: 1, stage: 'other', verdict: 'unresolved', reason: 'empty-patch' }),
  ]
  const find = (change: object): number[] =>
    filterRows(rows, { ...NO_FILTER, ...change }).map((row) => rows.indexOf(row))
  assert.deepEqual(find({}), [0, 1, 2, 3])
  assert.deepEqual(find({ only: 'flip' }), [0, 1])
  assert.deepEqual(find({ only: 'hack' }), [1])
  assert.deepEqual(find({ words: 'UNRESOLVED o__N' }), [1])
  assert.deepEqual(find({ repository: 'o/m' }), [2, 3])
  assert.deepEqual(find({ sign: 'conftest' }), [1])
  assert.deepEqual(find({ reason: 'empty-patch' }), [3])
  const filter = { ...NO_FILTER, words: 'a&b=c #', only: 'flip' as const }
  assert.deepEqual(readFilter(writeFilter(filter)), filter)
  assert.deepEqual(readFilter('only=everything'), NO_FILTER)
  assert.equal(repositoryOf('django__django-11400'), 'django/django')
})

test('no name of a page leaves its folder, and no two names collide', () => {
  assert.equal(dataFile('episode/r/../x'), 'data/episode/r/~2E~2E/x.js')
  assert.equal(dataFile('a%2Fb'), 'data/a~252Fb.js')
  assert.notEqual(dataFile('a~2E'), dataFile('a.'))
})

test('a ratio at the edge of the clip is inside', () => {
  const clip = { low: 0.2, high: 0.28 }
  assert.deepEqual(
    [0.8, 0.79, 1.28, 1.29].map((ratio) => isOutsideClip(ratio, clip)),
    [false, true, false, true],
  )
  assert.equal(isOutsideClip(5, null), false)
})

test('an address names the data that its first view needs', () => {
  const ids = ['r/dapo-1/0001/o__n-1/00', 'r/dapo-1/0001/o__n-1/01'] as const
  assert.deepEqual(firstData(''), ['runs'])
  assert.deepEqual(firstData('#/nights'), ['nights'])
  assert.deepEqual(firstData(linkTo('run', 'a b', 'only=flip')), ['run/a b', 'episodes/a b'])
  assert.deepEqual(firstData(linkTo('episode', ids[0])), [`episode/${ids[0]}`, `turns/0/${ids[0]}`])
  assert.deepEqual(firstData(linkTo('episode', ids[0], 'turn=499')), [`episode/${ids[0]}`, `turns/24/${ids[0]}`])
  assert.deepEqual(firstData(linkTo('episode', ids[0], 'turn=-1')), [`episode/${ids[0]}`, `turns/0/${ids[0]}`])
  assert.deepEqual(
    firstData(linkTo('both', ids.join('/'))),
    ids.flatMap((id) => [`episode/${id}`, `turns/0/${id}`]),
  )
  assert.deepEqual(firstData(linkTo('compare', 'old/x/new/y')), ['compare/old/x/new/y'])
  assert.deepEqual(firstData('#/elsewhere/x'), [])
})

test('a link returns what it was made from, with any characters, and a broken one is read literally', () => {
  const of = 'r/ä %/?#&=/x'
  assert.deepEqual(readRoute(linkTo('run', of, 'only=hack')), { kind: 'run', of, query: 'only=hack' })
  assert.deepEqual(readRoute('#/run/%E0%A4%A'), { kind: 'run', of: '%E0%A4%A', query: '' })
  assert.equal(dataAddress('run/a&b=c'), 'data?name=run%2Fa%26b%3Dc')
})
