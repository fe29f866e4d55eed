import type { Dice } from './dice.ts'

const ESC = '\u001b'
const COLOURS = [`${ESC}[32m`, `${ESC}[0m`, `${ESC}[1;31m`, `${ESC}[K`, '[31m', `${ESC}[٣m`, '[0m[1m'] as const
/** Whitespace in Python, in JavaScript, in both or in neither. */
const ODD_CHARACTERS = [
  '\t',
  '\v',
  '\f',
  '\u001c',
  '\u001d',
  '\u001e',
  '\u001f',
  '\u0085',
  '\u00a0',
  '\u1680',
  '\u2028',
  '\u2029',
  '\u202f',
  '\u205f',
  '\u3000',
  '\ufeff',
  '\u200b',
  '\u180e',
  '\0',
  '\u0001',
  '\u007f',
  '  ',
] as const
const LINE_ENDS = ['\r\n', '\r', '\n\r', '\r\r\n', '\u0085', '\u2028', '\v', '\u001e', '\n\n'] as const
const BAD_CODES = [
  'Patch Apply Failed',
  'Reset Failed',
  'Tests Errored',
  'Tests Timed Out',
  'Start Test Output',
  'End Test Output',
] as const
const BAD_BYTES = [
  [0xff],
  [0xc3],
  [0x80],
  [0xed, 0xa0, 0x80],
  [0xc0, 0xaf],
  [0xf4, 0x90, 0x80, 0x80],
  [0xe2, 0x82],
  [0xf0, 0x9f, 0x98],
] as const

type Change = (dice: Dice, text: string) => string

const CHANGES: readonly Change[] = [
  (dice, text) => insert(dice, text, dice.pick(COLOURS)),
  (dice, text) => replaceSome(dice, text, /^(?=[A-Z])/gm, () => dice.pick(COLOURS), 0.2),
  (dice, text) => replaceSome(dice, text, / /g, () => dice.pick(ODD_CHARACTERS), 0.1),
  (dice, text) => replaceSome(dice, text, / /g, () => dice.pick(ODD_CHARACTERS), 0.6),
  (dice, text) => insert(dice, text, dice.pick(ODD_CHARACTERS)),
  (dice, text) => replaceSome(dice, text, /^/gm, () => dice.pick(ODD_CHARACTERS), 0.1),
  (dice, text) => replaceSome(dice, text, /\n/g, () => dice.pick(LINE_ENDS), 0.15),
  (_, text) => text.replaceAll('\n', '\r\n'),
  (_, text) => text.replaceAll('\n', '\r'),
  (dice, text) => repeatLines(dice, text),
  (dice, text) => text.slice(0, dice.below(text.length + 1)),
  (dice, text) => text.slice(dice.below(text.length + 1)),
  (dice, text) => insert(dice, text, text.slice(dice.below(text.length), dice.below(text.length))),
  (dice, text) => removePart(dice, text),
  (dice, text) => insert(dice, text, `>>>>> ${dice.pick(BAD_CODES)}`),
  (dice, text) => text.replace(`>>>>> ${dice.pick(BAD_CODES)}`, dice.pick(['', '>>>>> ', '>>>>>  Start Test Output'])),
  (dice, text) => shuffleLines(dice, text),
  (_, text) => `\ufeff${text}`,
  (dice, text) =>
    insert(
      dice,
      text,
      dice.pick(['PASSED', ' PASSED ', 'FAILED', '\nPASSED ', 'ok', ' - ', ' ... ok', ' ... ', '.py:', '[', ']']),
    ),
  (dice, text) => insert(dice, text, 'x y.py:z '.repeat(dice.below(2000))),
  (dice, text) =>
    replaceSome(
      dice,
      text,
      /PASSED|FAILED|SKIPPED/g,
      () => dice.pick(['PASSED', 'FAILED', 'SKIPPED', 'XFAIL', 'ERROR']),
      0.5,
    ),
]

export function damageText(dice: Dice, text: string): string {
  const changes = dice.chance(0.25) ? [] : dice.times(1 + dice.below(4), () => dice.pick(CHANGES))
  return changes.reduce((damaged, change) => change(dice, damaged), text).toWellFormed()
}

export function damageBytes(dice: Dice, bytes: Uint8Array): Uint8Array {
  if (!dice.chance(0.06)) return bytes
  const at = dice.below(bytes.length + 1)
  return dice.chance(0.3)
    ? bytes.subarray(0, at)
    : Uint8Array.from([...bytes.subarray(0, at), ...dice.pick(BAD_BYTES), ...bytes.subarray(at)])
}

function insert(dice: Dice, text: string, part: string): string {
  const at = dice.below(text.length + 1)
  return text.slice(0, at) + part + text.slice(at)
}

function removePart(dice: Dice, text: string): string {
  const at = dice.below(text.length + 1)
  return text.slice(0, at) + text.slice(at + dice.below(80))
}

function replaceSome(dice: Dice, text: string, pattern: RegExp, make: () => string, share: number): string {
  return text.replaceAll(pattern, (found) => (dice.chance(share) ? make() : found))
}

function repeatLines(dice: Dice, text: string): string {
  const lines = text.split('\n')
  return [...lines, ...dice.times(1 + dice.below(3), () => dice.pick(lines))].join('\n')
}

function shuffleLines(dice: Dice, text: string): string {
  const lines = text.split('\n')
  const from = dice.below(lines.length)
  const moved = lines.splice(from, 1 + dice.below(3))
  lines.splice(dice.below(lines.length + 1), 0, ...moved)
  return lines.join('\n')
}
