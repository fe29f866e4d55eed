import type { Verdict } from './verdict.ts'

export interface InstanceReportInput {
  taskId: string
  verdict: Verdict
}

/** `report.json` of one instance in the official layout: indent 4, ASCII only, no final newline. */
export function instanceReport({ taskId, verdict }: InstanceReportInput): string {
  const lists = (list: { success: string[]; failure: string[] }): object => ({
    success: list.success,
    failure: list.failure,
  })
  const none = { success: [], failure: [] }
  const report = {
    patch_is_None: false,
    patch_exists: true,
    patch_successfully_applied: verdict.tests !== null,
    resolved: verdict.kind === 'resolved',
    ...(verdict.tests === null
      ? {}
      : {
          tests_status: {
            FAIL_TO_PASS: lists(verdict.tests.failToPass),
            PASS_TO_PASS: lists(verdict.tests.passToPass),
            FAIL_TO_FAIL: none,
            PASS_TO_FAIL: none,
          },
        }),
  }
  return escapeNonAscii(JSON.stringify({ [taskId]: report }, null, 4))
}

function escapeNonAscii(json: string): string {
  return json.replaceAll(/[\u007F-\uFFFF]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
