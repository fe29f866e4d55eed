/**
 * JSON as Python's `json.dumps` writes it, by default with everything beyond printable ASCII escaped. Needed for files that must equal
 * those of the harnesses byte for byte.
 */
export function pythonJson(value: unknown, { indent, ascii = true }: { indent: number; ascii?: boolean }): string {
  const json = JSON.stringify(value, null, indent)
  return ascii ? json.replaceAll(/[\u007F-\uFFFF]/g, escapeUnit) : json
}

/** Python sorts text by code point, JavaScript by UTF-16 unit; the orders differ beyond the first plane. */
export function sortByCodePoint(texts: Iterable<string>): string[] {
  return [...texts].sort(compareCodePoints)
}

function compareCodePoints(left: string, right: string): number {
  for (let at = 0; ; ) {
    const a = left.codePointAt(at)
    const b = right.codePointAt(at)
    if (a !== b) return (a ?? -1) - (b ?? -1)
    if (a === undefined) return 0
    at += a > 0xffff ? 2 : 1
  }
}

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}
