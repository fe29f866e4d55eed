/** Milliseconds since 1970 of a published date; one that names no zone is UTC. Null when it is no date. */
export function instant(text: string): number | null {
  const match = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)\s?(Z|[+-]\d{2}:?\d{2})?)?$/.exec(text)
  if (match === null) return null
  const [, day = '', time = '00:00:00', zone = 'Z'] = match
  const at = Date.parse(`${day}T${time}${/^[+-]\d{4}$/.test(zone) ? `${zone.slice(0, 3)}:${zone.slice(3)}` : zone}`)
  return Number.isNaN(at) ? null : at
}
