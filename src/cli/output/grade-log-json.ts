import type { GradeLogResult } from '../../grading/grade-log.ts'

/**
 * The answer's members as JSON text, without the braces. Written from the map itself, because an object would put names that
 * look like numbers first.
 */
export function answerMembers(result: GradeLogResult): string {
  if (result.kind === 'refused') return errorMember(result.message)
  const entries: string[] = []
  for (const [name, status] of result.statuses) entries.push(`${JSON.stringify(name)}:${JSON.stringify(status)}`)
  return `"statusMap":{${entries.join(',')}},"resolved":${String(result.resolved)}`
}

export function errorMember(message: string): string {
  return `"error":${JSON.stringify(message)}`
}
