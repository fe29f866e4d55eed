/** Writes the test commands of swebench 4.1.0 into the source file: `node test/support/grading-oracle/record-commands.ts`. */
import { execFileSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { commandsSource } from './commands.ts'

const root = join(import.meta.dirname, '../../..')
const path = join(root, 'src/grading/profiles/swebench-4.1-commands.ts')
await writeFile(path, await commandsSource())
execFileSync(join(root, 'node_modules/.bin/biome'), ['format', '--write', path], { cwd: root, stdio: 'inherit' })
