// Outputs of a CI job from what Longhaul printed: `name=value`, a line each. A value is one line without hidden
// characters, so the name of a task cannot add an output.
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
      // The last line of a process that was killed.
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
