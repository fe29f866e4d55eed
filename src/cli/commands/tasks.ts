import { type Command, Option } from 'commander'
import { SYNTHETIC_FAMILIES, type SyntheticFamily } from '../../contracts/synthetic-families.ts'
import type { CommandContext } from '../command-context.ts'
import { untilInterrupted } from '../output/console.ts'
import { whileReporting } from '../output/live-lines.ts'
import { examples, integer, jsonOption } from '../arguments/options.ts'
import { addGate } from './tasks-gate.ts'
import { addImport } from './tasks-import.ts'
import { addDifficulty } from './tasks-difficulty.ts'
import { requireWritable, writeResult } from '../output/require-writable.ts'

interface SynthesizeOptions {
  count: number
  seed: number
  offset: number
  split: 'train' | 'eval'
  family: SyntheticFamily
  output?: string
  images?: true
  json?: true
}

export function addTasks(program: Command, context: CommandContext): void {
  const tasks = program.command('tasks').description('make, import, check and curate tasks')
  tasks
    .command('synthesize')
    .description('make small real repair tasks from a seed, as SWE-rebench rows; the same seed makes the same bytes')
    .addOption(
      new Option('--family <family>', 'kind of task: docs/datasets.md')
        .choices([...SYNTHETIC_FAMILIES])
        .default('one-wrong-line'),
    )
    .option('--count <n>', 'how many', integer({ name: '--count', min: 1 }), 10)
    .option('--seed <n>', 'seed of the family', integer({ name: '--seed' }), 1)
    .option('--offset <n>', 'index of the first', integer({ name: '--offset' }), 0)
    .addOption(new Option('--split <split>', 'splits share no name').choices(['train', 'eval']).default('train'))
    .option('--output <file>', 'write JSONL there instead of stdout')
    .option('--images', 'build the image of each task as well')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples(
        'longhaul tasks synthesize --count 3',
        'longhaul tasks synthesize --count 100 --images --output rows.jsonl',
      ),
    )
    .action((options: SynthesizeOptions) => synthesize(options, context))
  addGate(tasks, context)
  addDifficulty(tasks, context)
  addImport(tasks, context)
}

async function synthesize(options: SynthesizeOptions, { console }: CommandContext): Promise<void> {
  const { family, seed, split, count, offset, output, images, json } = options
  await requireWritable({ files: { '--output': output } })
  const { synthesizeSuite } = await import('../../adapters/datasets/synthetic/synthesize.ts')
  const tasks = synthesizeSuite({ family, seed, split, count, offset })
  const rows = tasks.map(({ row }) => `${JSON.stringify(row)}\n`).join('')
  if (images === true) {
    const { buildImages } = await import('./build-images.ts')
    let built = 0
    const what = (): string => `images ${built} of ${tasks.length}`
    await untilInterrupted((signal) =>
      whileReporting({ console, what }, ({ note, changed }) => {
        const onBuilt = (): void => {
          built += 1
          changed()
        }
        return buildImages({ tasks, signal, log: note, onBuilt })
      }),
    )
    console.err(what())
  }
  if (output !== undefined) await writeResult(output, rows)
  if (json === true && output !== undefined) console.record({ tasks: tasks.length, output, images: images === true })
  else if (output === undefined) console.out(rows)
  else console.out(`${tasks.length} tasks in ${output}`)
}
