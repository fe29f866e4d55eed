// Prints the outputs of a CI job from Longhaul's output, one `name=value` per line. Values have no line breaks or control characters, so
// the name of a task cannot add an output.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const [directory = '.', exitCode = '2', style] = process.argv.slice(2)
const records = readFileSync(join(directory, 'result.jsonl'), 'utf8')
  .split('\n')
  .filter((line) => line !== '')
  .flatMap((line) => {
    try {
      return [JSON.parse(line)]
    } catch {
      // A killed process may leave an incomplete last line.
      return []
    }
  })
const find = (event) => records.findLast((record) => record.event === event) ?? {}
const outputs = {
  run: find('launch').workflowId,
  'exit-code': exitCode,
  verdict: find('done').verdict ?? find('error').message,
  directory,
}
for (const [name, value] of Object.entries(outputs)) {
  const text = String(value ?? '').replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
  const key = style === 'dotenv' ? `LONGHAUL_${name.toUpperCase().replace('-', '_')}` : name
  console.log(`${key}=${text}`)
}
