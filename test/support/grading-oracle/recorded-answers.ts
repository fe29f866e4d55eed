/** Logs with the findings of the official harnesses; `record-answers.ts` writes the files. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import type { LogCase } from './log-cases.ts'
import type { OracleAnswer, OracleKind } from './oracle.ts'

/** Without `fork-rules`, which is swebench 4.1 with one rule less: the fork itself gives the same answers. */
export const RECORDED_KINDS: readonly OracleKind[] = ['fork-4.0.3', 'swebench-4.1', 'swebench-5', 'rebench-v2']

export interface RecordedAnswer {
  one: LogCase
  answer: OracleAnswer
}

export function answersFile(kind: OracleKind): string {
  return join(import.meta.dirname, 'answers', `${kind}.jsonl.gz`)
}

export function readAnswers(kind: OracleKind): RecordedAnswer[] {
  const lines = gunzipSync(readFileSync(answersFile(kind)))
    .toString('utf8')
    .trimEnd()
    .split('\n')
  return lines.map((line) => {
    const { log, answer, ...rest } = JSON.parse(line) as Omit<LogCase, 'log'> & { log: string; answer: OracleAnswer }
    return { one: { ...rest, log: Buffer.from(log, 'base64') }, answer }
  })
}
