/**
 * Texts of tasks, models and failures are untrusted. Each function makes them harmless for one kind of reader: words stay readable, hidden
 * characters become visible.
 */

/** Terminal sequences: CSI, OSC (ended by BEL or ST) and the short ones; `showHidden` writes out a sequence without its end. */
// oxlint-disable-next-line no-control-regex -- they are what is looked for
const ANSI = /\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]{0,4096}(?:\u0007|\u001b\\)|\u001b[ -/]{0,4}[0-Z\\-~]/g

/** Controls without tab and line feed, formats (direction, joiners, tags), separators of lines, lone surrogates, what has no width. */
const HIDDEN = /(?![\t\n])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\u{e0000}-\u{e007f}\u115f\u1160\u3164\uffa0\ufffe\uffff]/gu

/** Removes terminal sequences and writes out every other hidden character as `\u{202e}`. Keeps tabs and line feeds. */
export function showControls(text: string): string {
  return showHidden(text.replace(ANSI, '').replace(/\r\n/g, '\n'))
}

/** Writes out every hidden character as `\u{202e}`, also those of terminal sequences. Keeps tabs and line feeds. */
export function showHidden(text: string): string {
  return text.replace(HIDDEN, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`)
}

/** JSON text that every reader of a log takes for plain text: no hidden characters and no old workflow commands. Its value stays. */
export function plainJson(json: string): string {
  return (
    json
      // Each before another one: of three, two would be left.
      .replaceAll(/#(?=#)/g, '\\u0023')
      .replace(HIDDEN, (character) =>
        Array.from(
          { length: character.length },
          (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`,
        ).join(''),
      )
  )
}

/** The text on one line, cut to `maxLength`. */
export function oneLine(text: string, maxLength = 300): string {
  // Cut before and after, since a replacement may be longer than what it replaces.
  return cut(
    showControls(text.slice(0, 4 * maxLength))
      .replace(/\s+/g, ' ')
      .trim(),
    maxLength,
  )
}

export function cut(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text
  // Never between the halves of a surrogate pair.
  const end = /[\ud800-\udbff]/.test(text.charAt(maxLength - 2)) ? maxLength - 2 : maxLength - 1
  return `${text.slice(0, end)}…`
}

/**
 * For Markdown pages and table cells: every character that Markdown or HTML could interpret becomes an entity, so no text is markup, a
 * link, a mention or a cell border. Underscores inside words stay: GitHub and GitLab take them literally.
 */
export function markdownText(text: string, maxLength = 300): string {
  return oneLine(text, maxLength)
    .split(/((?<=[A-Za-z0-9])_+(?=[A-Za-z0-9]))/)
    .map((part, index) => (index % 2 === 1 ? part : part.replace(/[!-+.:-@[-`{-~]/g, entity)))
    .join('')
}

function entity(character: string): string {
  return `&#${character.charCodeAt(0)};`
}

/** Writes out what XML 1.0 forbids and turns markup into entities. For text and for attributes in double quotes. */
export function xmlText(text: string): string {
  return showControls(text)
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}

export function xmlAttribute(text: string, maxLength = 1000): string {
  return xmlText(oneLine(text, maxLength))
}

/** The message of a GitHub Actions workflow command. */
export function commandMessage(text: string, maxLength = 500): string {
  return oneLine(text, maxLength).replaceAll('%', '%25')
}

/** A property of a GitHub Actions workflow command. */
export function commandProperty(text: string, maxLength = 120): string {
  return commandMessage(text, maxLength).replaceAll(':', '%3A').replaceAll(',', '%2C')
}

/**
 * For the log of a CI job, where some lines are commands: `::error::` at the start of a line on GitHub, `##[…]`, `##vso[…]` and
 * `##teamcity[…]` anywhere, and terminal sequences that fold a log on GitLab.
 */
export function logText(text: string): string {
  return showControls(text)
    .split('\n')
    .map((line) => line.replace(/^(\s*):(?=:)/, '$1\\:').replace(/##(?=\w*\[)/g, '#\\#'))
    .join('\n')
}
