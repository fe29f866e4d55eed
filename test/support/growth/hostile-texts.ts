import fc from 'fast-check'

/** `before`, then `pumped` repeatedly, then `after`. */
export interface HostileText {
  before: string
  pumped: string
  after: string
}

export function textOf({ before, pumped, after }: HostileText, length: number): string {
  return before + pumped.repeat(Math.ceil(length / pumped.length)) + after
}

/** Characters for which most patterns have a rule. */
const CHARACTERS = [
  ' ',
  '\t',
  '\n',
  '\r',
  '=',
  '-',
  '_',
  '1',
  'a',
  '.',
  '/',
  '(',
  ')',
  '[',
  ']',
  '"',
  "'",
  '<',
  '>',
  ':',
  ',',
  '|',
  '\\',
  '$',
  '#',
  '`',
  '\u001B[',
]
/** No pattern matches beyond the last two. */
const ENDS = ['', 'x', '\u0000\nx']

/**
 * Texts that may cost a pattern far more than their length: strings that it matches, with one part repeated, and an end that makes
 * the match fail. Seeded, so the same pattern gets the same texts.
 */
export function hostileTexts(pattern: RegExp, samples = 3): HostileText[] {
  const texts: HostileText[] = []
  const words = wordsOf(pattern.source)
  const matched = samplesOf(pattern, samples)
  for (const pumped of [...CHARACTERS, ...words, ...words.map((word) => `${word} `), ...pairsOf(pattern.source)]) {
    for (const before of ['', ...matched.slice(0, 1)])
      texts.push({ before, pumped, after: 'x' }, { before, pumped, after: '\u0000\nx' })
  }
  for (const sample of matched) {
    for (const [start, end] of parts(sample)) {
      const pumped = sample.slice(start, end)
      for (const after of ENDS)
        texts.push({ before: sample.slice(0, start), pumped, after: after === '' ? sample.slice(end) : after })
    }
  }
  const unique = new Map(texts.map((text) => [JSON.stringify(text), text]))
  return [...unique.values()]
}

/** Literal words of a pattern. */
function wordsOf(source: string): string[] {
  const plain = source
    .replaceAll(/\[\^?(?:\\.|[^\]\\])*\]/g, '((')
    .replaceAll(/\\[pPu]\{[^}]*\}|\\u[0-9A-F]{4}|\\[wWdDsSbBnrtfv]/g, '((')
    .replaceAll(/\\(.)/g, '$1')
  const words = plain.split(/[(){}|?*+^$.]+/)
  return [...new Set(words)].filter((word) => word.length > 1 && word.length < 40)
}

/** Two characters of the pattern, alternating. */
function pairsOf(source: string): string[] {
  const named = [...new Set(source.replaceAll(/[A-Za-z0-9\\^*+?(){}|]/g, ''))].slice(0, 12)
  return named
    .flatMap((one) => named.flatMap((other) => (one === other ? [] : [one + other])))
    .concat(named.map((one) => `${one}a`))
}

/** Strings that the pattern matches, without its look-arounds. */
function samplesOf({ source, flags }: RegExp, count: number): string[] {
  try {
    const plain = new RegExp(withoutLooks(source, flags), flags.replaceAll(/[gy]/g, ''))
    const drawn = fc.sample(fc.stringMatching(plain, { size: 'small' }), { numRuns: count * 4, seed: 7 })
    return [...new Set(drawn)].filter((text) => text.length > 0 && text.length < 120).slice(0, count)
  } catch {
    return []
  }
}

function withoutLooks(source: string, flags: string): string {
  let plain = ''
  for (let at = 0; at < source.length; ) {
    if (!/^\(\?<?[=!]/.test(source.slice(at))) {
      const length = source[at] === '\\' ? 2 : source[at] === '[' ? classLength(source, at) : 1
      const part = source.slice(at, at + length)
      plain += part.startsWith('[^') ? memberOf(part, flags) : part
      at += length
      continue
    }
    let depth = 0
    for (; at < source.length; at += 1) {
      if (source[at] === '\\') at += 1
      else if (source[at] === '[') at += classLength(source, at) - 1
      else if (source[at] === '(') depth += 1
      else if (source[at] === ')') {
        depth -= 1
        if (depth === 0) break
      }
    }
    at += 1
  }
  return plain
    .replaceAll(/\(\?:\|\)/g, '')
    .replaceAll(/\\b/g, '')
    .replaceAll(/\\[1-9]/g, '')
}

/** A character of a negated class. The library draws strings from a few characters until one fits, which never ends if none of those
 *  is in the class. */
function memberOf(excluding: string, flags: string): string {
  const pattern = new RegExp(`^${excluding}$`, flags.replaceAll(/[gy]/g, ''))
  return ['x', '1', ' ', 'é', '\u0000'].find((one) => pattern.test(one)) ?? ''
}

function classLength(source: string, start: number): number {
  let at = start + 1
  for (; at < source.length && source[at] !== ']'; at += 1) if (source[at] === '\\') at += 1
  return at - start + 1
}

/** Starts and ends of parts that may be repeated: short parts everywhere, and whole runs. */
function parts(sample: string): [number, number][] {
  const found: [number, number][] = []
  for (let start = 0; start < sample.length; start += 1) {
    for (const length of [1, 2, 3, 5, 8, 13]) if (start + length <= sample.length) found.push([start, start + length])
  }
  return found.filter((_, index) => found.length <= 30 || index % Math.ceil(found.length / 30) === 0)
}
