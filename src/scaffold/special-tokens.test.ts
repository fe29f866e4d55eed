import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FAMILIES } from '../../test/support/chat-families.ts'
import { createDefuse, readAddedTokens } from './special-tokens.ts'

const defuse = createDefuse()

test('breaks the marks of every family in foreign text and keeps them readable', () => {
  for (const [family, marks] of Object.entries(FAMILIES)) {
    // A token that no fixed list holds comes from the tokenizer.
    const broken = createDefuse({ tokens: ['<｜DSML｜'] })
    for (const mark of marks) {
      const shown = broken(`a ${mark}${mark} b`)
      assert.ok(!shown.includes(mark), `${family}: ${shown}`)
      const [first = ''] = mark
      assert.equal(shown, `a ${`${first}\\${mark.slice(first.length)}`.repeat(2)} b`, family)
    }
  }
})

test('breaks nested marks and leaves operators, markup and lists alone', () => {
  assert.equal(defuse('<|<|im_end|>|>'), '<|<\\|im_end|>|>')
  assert.equal(defuse('f <| g |> h'), 'f <\\| g |> h')
  assert.equal(defuse('<|a<b|>'), '<|a<\\b|>')
  for (const plain of [
    'a <| b\nc <|',
    'if (a<b || c>d) x = y|z>w',
    '<div class="s"><b>x</b></div>',
    '[inst] [args] [1] [x](y) xs[PAD_LEFT]',
    'List<String> a; vector<int> b; Foo<S> <S>',
    '<||> <|> <| || |>',
    `<|${'x'.repeat(65)}|>`,
    '<|a|b|>',
    'let xs = [| 1; 2 |] and [a|b] and [|] [||] [|x|',
    'a >>TITLE< b >> c <<',
    'naïve — ünïcode ｜ 全角 👩‍👩‍👧 \u200b',
    '',
  ]) {
    assert.equal(defuse(plain), plain)
  }
})

test('a name between bars has 1 to 64 characters', () => {
  assert.equal(defuse('<|x|>'), '<\\|x|>')
  assert.equal(defuse(`<|${'x'.repeat(64)}|>`), `<\\|${'x'.repeat(64)}|>`)
})

test('breaks spellings that a normaliser turns into a mark', () => {
  // Full width, small form, Kelvin sign, a joiner that is not drawn, a control character.
  for (const hidden of ['＜|im_end|＞', '﹤s>', '[MAS\u{212a}]', '<|im\u200d_end|>', '<\u00ads>', '<\u0000s>']) {
    assert.notEqual(defuse(hidden), hidden, hidden)
  }
  assert.equal(defuse('＜|x|>'), '＜\\|x|>', 'a substitute for one character stays unchanged')
  // One code point that stands for several is written as those.
  assert.equal(createDefuse({ tokens: ['(1)'] })('⑴'), '(\\1)')
  assert.equal(createDefuse({ tokens: ['1)'] })('⑴'), '(1\\)')
})

test('ignores only what a normaliser drops, so that blanks and visible characters separate a mark', () => {
  for (const parted of ['< s>', '<\ts>', '<\ns>', '<\rs>', '<~s>', '< im_end|>', '<s\u{7e}>']) {
    assert.equal(defuse(parted), parted, JSON.stringify(parted))
  }
  assert.notEqual(defuse('<\u007fs>'), '<\u007fs>')
})

test('spells out tokens of one character by all of their code points', () => {
  // A skin tone is a code point of its own; the token folds to one unit.
  const own = createDefuse({ tokens: ['\u200b⏎'] })
  assert.equal(own('a\u200b⏎b'), String.raw`a\u{200b}\u{23ce}b`)
})

test('breaks the policy’s own tokens of one character, with a backslash and overlapping', () => {
  const own = createDefuse({ tokens: ['⏎', '<\\s>', 'ab', 'bc'] })
  assert.equal(own('a⏎b'), String.raw`a\u{23ce}b`)
  assert.equal(own('<s>').includes('<\\s>'), false)
  assert.equal(own('abc'), 'a\\b\\c')
  const again = own('<s> ⏎ abc')
  assert.equal(own(again), again, 'an escaped text is not escaped again')
})

test('takes special tokens and markup of a tokenizer, but not its kept blanks and words', () => {
  const entry = (content: string, special: boolean) => ({ content, special, id: 1 })
  const added = [
    entry('<|x|>', true),
    entry('sop', true),
    entry('<think>', false),
    entry('    ', false),
    entry('def', false),
    entry(' ', true),
    entry('a<think>', false),
    entry('<think>a', false),
    null,
    { special: true },
  ]
  assert.deepEqual(readAddedTokens(JSON.stringify({ added_tokens: added })), ['<|x|>', 'sop', '<think>'])
  assert.deepEqual(readAddedTokens('{}'), [])
})

test('breaks a compatibility character at the place where the token begins in it', () => {
  assert.equal(createDefuse({ tokens: ['gold>'] })('㎏old>'), String.raw`kg\old>`)
})

test('brackets of lists and types are no marks', () => {
  for (const text of ['[a|]', '[a, b]', 'dict[str, int | None]', 'a[i|]', '[| a |]'])
    assert.equal(createDefuse()(text), text)
})
