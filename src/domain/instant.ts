/** Returns a published date as milliseconds since 1970; without a time zone it is UTC. Null if it is not a date of the calendar. */
export function instant(text: string): number | null {
  const match = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)\s?(Z|[+-]\d{2}:?\d{2})?)?$/.exec(text)
  if (match === null) return null
  const [, day = '', time = '00:00:00', zone = 'Z'] = match
  const at = Date.parse(`${day}T${time}${/^[+-]\d{4}$/.test(zone) ? `${zone.slice(0, 3)}:${zone.slice(3)}` : zone}`)
  return Number.isNaN(at) || !isInCalendar(day) ? null : at
}

/** `Date` takes 30 February for 2 March. */
export function isInCalendar(day: string): boolean {
  const at = Date.parse(`${day}T00:00:00Z`)
  return !Number.isNaN(at) && new Date(at).toISOString().startsWith(day)
}
