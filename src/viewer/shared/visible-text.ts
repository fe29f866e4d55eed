/** An agent's text without hidden effects: no colours, no cursor moves, no writing from right to left. */

export interface TextPart {
  text: string
  /** `mark`: stands for a character that a browser would interpret or hide. */
  kind: 'text' | 'mark'
}

/** ANSI sequences as one mark; else single characters: controls, formats (bidi, zero width), line separators, lone surrogates. */
const HIDDEN =
  // oxlint-disable-next-line no-control-regex -- these characters are what is looked for
  /\x1b\[[0-?]{0,64}[ -/]{0,16}[@-~]|\x1b\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\u115f\u1160\u3164\uffa0]/gu

const NAMES: Readonly<Record<string, string>> = {
  '\u001b': '␛',
  '\u0000': '␀',
  '\u0007': '␇',
  '\b': '␈',
  '\r': '␍',
  '\u007f': '␡',
}

export function visibleParts(text: string): TextPart[] {
  const parts: TextPart[] = []
  let plainFrom = 0
  for (const { 0: found, index } of text.matchAll(HIDDEN)) {
    if (found === '\n' || found === '\t') continue
    if (index > plainFrom) parts.push({ kind: 'text', text: text.slice(plainFrom, index) })
    parts.push({ kind: 'mark', text: spell(found) })
    plainFrom = index + found.length
  }
  if (plainFrom < text.length || parts.length === 0) parts.push({ kind: 'text', text: text.slice(plainFrom) })
  return parts
}

/** The same as one string, for places that hold no elements: a title, an option. */
export function spelled(text: string): string {
  return visibleParts(text)
    .map((part) => part.text)
    .join('')
}

function spell(found: string): string {
  if (found.length > 1 && found.startsWith('\u001b')) {
    return `␛${found.slice(1).replaceAll(/[\p{Cc}]/gu, '␇')}`
  }
  const code = found.codePointAt(0) ?? 0
  return NAMES[found] ?? `\\u{${code.toString(16).padStart(4, '0')}}`
}

/** Long lines make browsers slow: the rest is shown on request. */
export const LINE_CHARS = 2_000
export const SHOWN_LINES = 400

export interface ClippedText {
  text: string
  /** Number of characters left out. */
  hidden: number
}

/** The first `lines`, each cut to `chars`. */
export function clipText(text: string, { lines = SHOWN_LINES, chars = LINE_CHARS } = {}): ClippedText {
  const kept: string[] = []
  let at = 0
  let hidden = 0
  while (at <= text.length && kept.length < lines) {
    const end = text.indexOf('\n', at)
    const line = text.slice(at, end === -1 ? text.length : end)
    kept.push(line.length > chars ? `${line.slice(0, chars)}…` : line)
    hidden += Math.max(0, line.length - chars)
    if (end === -1) return { text: kept.join('\n'), hidden }
    at = end + 1
  }
  return { text: kept.join('\n'), hidden: hidden + text.length - at }
}
