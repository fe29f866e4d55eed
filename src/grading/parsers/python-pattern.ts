import { DIGIT, NOT_SPACE, SPACE, WORD, WORD_EDGE } from './python-text.ts'

/** Letters that Python's IGNORECASE treats as equal, besides the two cases of ASCII. */
const OTHER_CASES: Record<string, string> = { i: 'İı', k: '\u212A', s: 'ſ' }

/** The dot. Lines contain no line end, and a pattern that could fail at one would retry at every preceding whitespace. */
const EVERY = '[^]'

/** The replacement of each Python class, outside and inside of brackets. */
const CLASSES: Record<string, { alone: string; inClass: string }> = {
  s: { alone: SPACE, inClass: SPACE.slice(1, -1) },
  S: { alone: NOT_SPACE, inClass: '' },
  d: { alone: DIGIT, inClass: DIGIT },
  w: { alone: WORD, inClass: WORD.slice(1, -1) },
  b: { alone: WORD_EDGE, inClass: '' },
}

/**
 * Translates a pattern in Python's notation, with Python's meaning of `\s`, `\d`, `\w`, `\b`, the dot and IGNORECASE. Groups have no
 * names, and the text has no line end: `$` matches only its end.
 */
export function pythonPattern(
  source: string,
  { flags = '', ignoresCase = false }: { flags?: string; ignoresCase?: boolean } = {},
): RegExp {
  let made = ''
  let isInClass = false
  for (let at = 0; at < source.length; at += 1) {
    const character = source[at] ?? ''
    if (character === '\\') {
      at += 1
      const escaped = source[at] ?? ''
      const known = CLASSES[escaped]
      made += known === undefined ? `\\${escaped}` : isInClass ? known.inClass : known.alone
    } else if (isInClass) {
      isInClass = character !== ']'
      made += character
    } else if (character === '[') {
      isInClass = true
      made += character
    } else if (character === '.') made += EVERY
    else made += ignoresCase && /[A-Za-z]/.test(character) ? anyCase(character) : character
  }
  return new RegExp(made, `u${flags}`)
}

function anyCase(letter: string): string {
  const lower = letter.toLowerCase()
  return `[${lower}${lower.toUpperCase()}${OTHER_CASES[lower] ?? ''}]`
}
