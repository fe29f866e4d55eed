import { LonghaulError } from '../../contracts/errors.ts'

export function bad(expected: string, details: Record<string, string | number | boolean | null>): LonghaulError {
  return new LonghaulError({
    code: 'Model.BadResponse',
    message: `Expected ${expected} from the policy server`,
    details,
  })
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function isIdList(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((id) => Number.isInteger(id) && id >= 0)
}
