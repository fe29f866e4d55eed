const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

/**
 * Text for HTML content and quoted attributes. Control and direction characters become visible escapes: a name may not
 * reorder the page around it.
 */
export function escapeHtml(text: string): string {
  return text
    .replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? character)
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, (character) =>
      character === '\n' ? '\n' : `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`,
    )
}
