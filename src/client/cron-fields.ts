/** Five cron fields, by the rules of the Temporal server, which names neither the field nor the value that it refuses. */

interface Field {
  name: string
  least: number
  most: number
  /** Values that have names, from `least` on. The server takes beginnings of them. */
  names?: readonly string[]
  shortestName?: number
}

const MONTHS = 'january february march april may june july august september october november december'.split(' ')
const DAYS = 'sunday monday tuesday wednesday thursday friday saturday'.split(' ')

const FIELDS: readonly Field[] = [
  { name: 'minute', least: 0, most: 59 },
  { name: 'hour', least: 0, most: 23 },
  { name: 'day of the month', least: 1, most: 31 },
  { name: 'month', least: 1, most: 12, names: MONTHS, shortestName: 3 },
  { name: 'day of the week', least: 0, most: 7, names: DAYS, shortestName: 2 },
]

/** Of a leap year: a schedule may wait for one. */
const DAYS_OF_MONTHS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

/** @returns what is wrong with five cron fields, null if they name times that exist */
export function faultOfCron(cron: string): string | null {
  const texts = cron.trim().split(/\s+/)
  if (texts.length !== FIELDS.length) return 'expected five cron fields such as "0 2 * * *"'
  const read = FIELDS.map((field, index) => readField(field, texts[index] ?? ''))
  for (const found of read) if (typeof found === 'string') return found
  const [, , days, months] = read as number[][]
  // The server wants the day of the month and the day of the week to hold together, so the latter makes no other day possible.
  const exists = months?.some((month) => days?.some((day) => day <= (DAYS_OF_MONTHS[month - 1] ?? 0)))
  return exists === true ? null : `no month ${texts[3]} has a day ${texts[2]}, so it would never start anything`
}

/** @returns the values that match, or what is wrong */
function readField(field: Field, text: string): number[] | string {
  const { name, least, most } = field
  const refuse = (part: string): string => `expected ${describeField(field)}, got ${JSON.stringify(part)}`
  const values: number[] = []
  for (const part of text.split(',')) {
    const [, range = '', step] = /^([^/]+)(?:\/(\d{1,9}))?$/.exec(part) ?? []
    const [from = '', to, ...more] = range === '*' ? [String(least), String(most)] : range.split('-')
    const start = valueOf(field, from)
    // A single value with a step counts up to the end.
    const end = to === undefined ? (step === undefined ? start : most) : valueOf(field, to)
    if (start === null || end === null || more.length > 0) return refuse(part)
    if (end < start)
      return `expected the ${name} to go from the smaller to the larger value, got ${JSON.stringify(part)}`
    const stride = Number(step ?? 1)
    if (stride < 1 || stride > most - least + 1) {
      return `expected a step of 1 to ${most - least + 1} in the ${name}, got ${JSON.stringify(part)}`
    }
    for (let value = start; value <= end; value += stride) values.push(value)
  }
  return values
}

function describeField({ name, least, most, names }: Field): string {
  const words = names === undefined ? '' : ` or a name such as ${names[1]?.slice(0, 3)}`
  return `the ${name} to be * or ${least} to ${most}${words}, with , - and / between`
}

function valueOf({ least, most, names = [], shortestName = 0 }: Field, text: string): number | null {
  if (/^\d{1,9}$/.test(text)) {
    const value = Number(text)
    return value >= least && value <= most ? value : null
  }
  const named = text.length >= shortestName ? names.findIndex((name) => name.startsWith(text.toLowerCase())) : -1
  return named < 0 ? null : named + least
}
