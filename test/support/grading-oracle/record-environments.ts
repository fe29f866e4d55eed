/** Writes the environments of swebench 4.1.0 into the package: `node test/support/grading-oracle/record-environments.ts`. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { environmentsSource } from './environments.ts'

const path = join(import.meta.dirname, '../../../infra/images/environments/swebench-4.1.json')
await writeFile(path, await environmentsSource())
