/** What became of the images of a suite. */
import type { BuiltTaskImage, FailedTaskImage } from '../contracts/task-images.types.ts'
import { number, type Table, text } from './tables.ts'

type Result = BuiltTaskImage | FailedTaskImage

export function imageTable(results: readonly Result[]): Table {
  return {
    title: 'Images',
    columns: [text('task'), text('image'), text('Python'), number('MB'), number('own MB'), number('s'), text('notes')],
    rows: results.map((result) => [
      result.taskId,
      result.did,
      pythonOf(result),
      ...(result.did === 'failed' ? ['–', '–'] : [megabytes(result.bytes), megabytes(result.ownBytes)]),
      result.seconds.toFixed(1),
      result.did === 'failed' ? `stage ${result.stage}` : notesOf(result),
    ]),
    notes: [
      'MB: of the whole image. Own MB: what it does not share with its environment. Present: there already, and not built here.',
    ],
  }
}

function pythonOf(result: Result): string {
  if (result.did === 'failed' || result.record === null) return '–'
  const { version, kind } = result.record.python
  return `${version} (${kind})`
}

function notesOf({ record }: BuiltTaskImage): string {
  return record === null || record.deviations.length === 0 ? '' : record.deviations.join('; ')
}

function megabytes(bytes: number): string {
  return String(Math.round(bytes / 1e6))
}

/** The failures in full, then one line. */
export function formatImages(results: readonly Result[]): string {
  const failed = results.filter((result) => result.did === 'failed')
  const of = (did: Result['did']): number => results.filter((result) => result.did === did).length
  const line = `${results.length} tasks: ${of('built')} built, ${of('found')} found, ${of('present')} present, ${of('failed')} failed`
  return [...failed.map(({ taskId, code, message }) => `${taskId}: ${code}: ${message}`), line].join('\n')
}
