/** Foreign text against the tokenizers library itself: no text encodes to a special token's id. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { chatml, createDefuse, renderDelta } from '../../src/scaffold/render.ts'
import { FAMILIES } from '../support/chat-families.ts'
import { python, pythonEnvironment, withoutPython } from '../support/python.ts'

const script = fileURLToPath(new URL('../support/special-tokens.py', import.meta.url))
const MARKS = [...new Set(Object.values(FAMILIES).flat())]
// A token of one character, and one that a defused text would spell.
const ODD = ['⏎', '<\\s>', '[UNUSED_TOKEN_146]', '<reserved_106>', 'sop']

function findSpecial(texts: string[], all: string[] = MARKS): Record<string, [string, string][]> {
  const input = JSON.stringify({ families: { ...FAMILIES, all }, texts })
  const done = spawnSync(python ?? '', [script], {
    input,
    encoding: 'utf8',
    env: pythonEnvironment,
    maxBuffer: 2 ** 28,
  })
  assert.equal(done.status, 0, done.stderr)
  return JSON.parse(done.stdout) as Record<string, [string, string][]>
}

test('no foreign text produces a special token id', { skip: withoutPython }, () => {
  const defuse = createDefuse({ tokens: [...MARKS, ...ODD] })
  const random = seeded(20_261_122)
  const texts = [...MARKS, ...ODD, ...Array.from({ length: 600 }, () => hostileText(random))]
  const all = [...MARKS, ...ODD]
  for (const [tokenizer, hits] of Object.entries(findSpecial(texts.map(defuse), all))) {
    assert.deepEqual(hits, [], tokenizer)
  }
  // The same texts as they came: what is compared here does find every mark of every family, and some that are hidden better.
  for (const [tokenizer, hits] of Object.entries(findSpecial(texts))) {
    const marks = FAMILIES[tokenizer.slice(0, tokenizer.lastIndexOf(' '))] ?? MARKS
    const found = new Set(hits.map(([text]) => text))
    assert.deepEqual(
      marks.filter((mark) => !found.has(mark)),
      [],
      tokenizer,
    )
    assert.ok(found.size > marks.length, tokenizer)
  }
})

test('the built-in marks protect every family except for its unusual tokens', { skip: withoutPython }, () => {
  const defuse = createDefuse()
  const texts = MARKS.filter((mark) => !['<｜DSML｜', ']~b]'].includes(mark)).map((mark) => `x ${defuse(mark)} y`)
  for (const [tokenizer, hits] of Object.entries(findSpecial(texts))) assert.deepEqual(hits, [], tokenizer)
})

test('a delta has exactly the special ids of its format', { skip: withoutPython }, () => {
  const observation = MARKS.join('\n')
  const text = renderDelta({ format: chatml, endedTurn: true, observation, defuse: createDefuse({ tokens: MARKS }) })
  const found = findSpecial([text])
  assert.deepEqual(
    found['all plain']?.map(([, special]) => special),
    ['<|im_start|><|im_end|><|im_start|>'],
  )
  assert.deepEqual(found['harmony nfkc'], [])
})

/** Marks cut, doubled, nested, in other widths, with what is not drawn in between, and text that is like them. */
function hostileText(random: () => number): string {
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T
  const disguise = (text: string): string =>
    Array.from(text)
      .map((point) => {
        const roll = random()
        if (roll < 0.04 && point > ' ' && point <= '~')
          return String.fromCodePoint((point.codePointAt(0) ?? 0) + 0xfee0)
        return roll < 0.08 ? point + pick(['\u0000', '\u200b', '\u00ad', '\u0007', '\ufe0f']) : point
      })
      .join('')
  const piece = (): string => {
    const mark = pick([...MARKS, ...ODD])
    const cut = Math.floor(random() * mark.length)
    const other = pick(MARKS)
    return pick([
      mark,
      mark.slice(0, cut) + other + mark.slice(cut),
      disguise(mark),
      mark.slice(cut),
      mark.slice(0, cut),
      '\\',
      '<',
      '|',
      '[',
      ' ',
      '\n',
      'é',
    ])
  }
  return Array.from({ length: 1 + Math.floor(random() * 8) }, piece).join('')
}

function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}
