import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { type Command, Option } from 'commander'
import { unpackLog } from '../../adapters/artifacts/stored-log.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import { plainJson } from '../../domain/hostile-text.ts'
import { explainUnreadable, openInputFile, readInputFile } from '../../platform/input-file.ts'
import type { GradeLogResult } from '../../grading/grade-log.ts'
import { isLogProfileName, LOG_PROFILES, type LogProfileName } from '../../grading/log-profiles.ts'
import type { ListedTests } from '../../grading/resolution.ts'
import type { CommandContext } from '../command-context.ts'
import { EXIT } from '../output/exit-codes.ts'
import { gradeBatch } from './grade-batch.ts'
import { answerMembers, BadRequest, testNames, gradeWithin } from '../arguments/grade-log-request.ts'
import { examples, jsonOption } from '../arguments/options.ts'

interface GradeLogOptions {
  profile?: string
  parser?: string
  failToPass?: string
  passToPass?: string
  batch?: string
  json?: true
}

const DETAILS = `
Without lists the parser alone reads the whole log; with one list or both, also empty ones, the whole grading runs: markers,
slice, evidence, verdict. An answer is {"statusMap": {name: status}, "resolved": true | false | null}, or {"error": "..."}
where the official harness raises. A line of a batch is
{"id", "profile", "parser", "logBase64", "failToPass"?, "passToPass"?, "evalType"?}; each is answered on a line, in order.
`

/** A batch is read in chunks of a megabyte; logs are tens of kilobytes. */
const READ_BYTES = 1024 * 1024

export function addGradeLog(program: Command, { console, exit }: CommandContext): void {
  program
    .command('grade-log')
    .description("grade stored test logs exactly as a data set's own harness does; needs no stack")
    .argument('[log]', 'log of one evaluation; a .gz file is unpacked')
    .addOption(new Option('--profile <profile>', 'harness to imitate').choices(Object.keys(LOG_PROFILES)))
    .option('--parser <name>', 'log parser that the row names')
    .option('--fail-to-pass <file>', 'JSON list of the tests that must begin to pass')
    .option('--pass-to-pass <file>', 'JSON list of the tests that must go on passing')
    .option('--batch <file>', 'grade the logs of a JSONL file instead (`-`: standard input)')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      DETAILS +
        examples(
          'longhaul grade-log --profile swebench-4.1 --parser django/django test_output.txt --json',
          'longhaul grade-log --batch logs.jsonl --json > verdicts.jsonl',
        ),
    )
    .action(async (log: string | undefined, options: GradeLogOptions) => {
      if (options.batch !== undefined) {
        if (log !== undefined) throw usage('Expected --batch without a log beside it')
        const { graded, errors, unread } = await gradeBatch({ input: await openBatch(options.batch), write: writeOut })
        console.err(`${graded} logs graded, ${errors} errors`)
        if (unread > 0 && unread === graded + errors) {
          throw usage(
            `Expected a batch with a log a line in ${options.batch}: none of its ${unread} lines is one (--help)`,
          )
        }
        return
      }
      const result = await gradeFile(log, options)
      if (options.json === true) console.out(plainJson(`{${answerMembers(result)}}`))
      else console.out(describe(result))
      if (result.kind === 'refused') exit(EXIT.usage)
    })
}

async function gradeFile(log: string | undefined, options: GradeLogOptions): Promise<GradeLogResult> {
  const { profile, parser } = options
  if (log === undefined || profile === undefined || parser === undefined) {
    throw usage('Expected a log with --profile and --parser, or --batch')
  }
  return gradeWithin({
    profile: requireProfile(profile),
    parser,
    log: await readLogFile(log),
    tests: await readLists(options),
  })
}

async function readLists({ failToPass, passToPass }: GradeLogOptions): Promise<ListedTests | null> {
  if (failToPass === undefined && passToPass === undefined) return null
  return { failToPass: await readList(failToPass), passToPass: await readList(passToPass) }
}

async function readList(file: string | undefined): Promise<string[]> {
  if (file === undefined) return []
  const text = await readInputFile({ path: file, what: 'a list of tests' })
  try {
    return testNames(file, JSON.parse(text))
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw usage(error instanceof BadRequest ? why : `Expected ${file} to be a list of test names in JSON: ${why}`)
  }
}

async function readLogFile(file: string): Promise<Uint8Array> {
  const bytes = await readInput(file)
  if (!file.endsWith('.gz')) return bytes
  return unpackLog(file, bytes).catch((error: unknown) => {
    // The file is the user's, and no record of a store.
    throw isLonghaulError(error) ? usage(`${error.message}; pack it again, or name the log itself`) : error
  })
}

async function readInput(file: string): Promise<Buffer> {
  return readFile(file).catch((cause: unknown) => {
    throw explainUnreadable({ path: file, what: 'a log, or a list of tests' }, cause)
  })
}

async function openBatch(file: string): Promise<AsyncIterable<Buffer>> {
  if (file === '-') return process.stdin
  const handle = await openInputFile({ path: file, what: 'a file of logs' })
  return createReadStream(file, { fd: handle, highWaterMark: READ_BYTES })
}

async function writeOut(text: string): Promise<void> {
  if (!process.stdout.write(text)) await once(process.stdout, 'drain')
}

function describe(result: GradeLogResult): string {
  if (result.kind === 'refused') return `error: ${result.message}`
  const counts = new Map<string, number>()
  for (const status of result.statuses.values()) counts.set(status, (counts.get(status) ?? 0) + 1)
  const tests = [...counts].map(([status, count]) => `${count} ${status}`).join(', ')
  const verdict = result.resolved === null ? 'not judged' : result.resolved ? 'resolved' : 'not resolved'
  return `${verdict}: ${tests === '' ? 'no results' : tests}`
}

function requireProfile(profile: string): LogProfileName {
  if (isLogProfileName(profile)) return profile
  throw usage(`Expected --profile to be one of ${Object.keys(LOG_PROFILES).join(', ')}`)
}

function usage(message: string): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message })
}
