import { resolve } from 'node:path'
import { type Command, Option } from 'commander'
import type { HubModel } from '../../adapters/models/hub-model.ts'
import type { ImportRecord } from '../../adapters/models/import-model.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { exists, isDirectory } from '../../platform/files.ts'
import type { ChatFormatName } from '../../contracts/policy.types.ts'
import { chatFormats } from '../../scaffold/render.ts'
import type { CommandContext } from '../command-context.ts'
import { untilInterrupted } from '../output/console.ts'
import { whileReporting } from '../output/live-lines.ts'
import { examples, hubUrlOf, hubUrlOption, jsonOption, tokenVariableOption } from '../arguments/options.ts'
import { requireWritable } from '../output/require-writable.ts'

interface ImportOptions {
  output: string
  revision?: string
  file?: string
  chatFormat?: ChatFormatName
  tokenizer?: string
  hubUrl?: string
  tokenVariable: string
  json?: true
}

export function addModels(program: Command, context: CommandContext): void {
  const models = program.command('models').description('import models from elsewhere as policies')
  models
    .command('import')
    .argument('<source>', 'a Hugging Face model directory, a .gguf file, or a model of the hub such as Qwen/Qwen3-4B')
    .description(
      'make a sealed policy directory from a Qwen2, Qwen3 or Llama model, and check that its logits equal the source’s; recipes name it as model.base',
    )
    .requiredOption('--output <directory>', 'the policy to make; it must not exist')
    .option('--revision <commit>', 'commit of a model of the hub; branches and tags move and are refused')
    .option('--file <name>', 'a GGUF file of a model of the hub, instead of its safetensors')
    .addOption(
      new Option(
        '--chat-format <name>',
        'conversation format of the model (default: the one of its chat template)',
      ).choices(Object.keys(chatFormats)),
    )
    .option('--tokenizer <directory>', 'take tokenizer and chat template from there instead of the source')
    .addOption(hubUrlOption())
    .addOption(tokenVariableOption())
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples(
        'longhaul models import ~/models/Qwen3-4B --output policies/qwen3-4b',
        'longhaul models import Qwen2.5-7B-Instruct-F16.gguf --output policies/qwen2.5-7b',
        'longhaul models import Qwen/Qwen3-4B --revision 1cfa9a7208912126459214e8b04321603b3df60c --output policies/qwen3-4b',
      ),
    )
    .addHelpText('after', 'Exit: 1 if the source cannot be imported, with what to do; nothing is left behind.')
    .action((source: string, options: ImportOptions) => runImport(source, options, context))
}

async function runImport(argument: string, options: ImportOptions, { console }: CommandContext): Promise<void> {
  const source = await readSource(argument, options)
  await requireDirectories(options)
  await requireWritable({ directories: { '--output': options.output } })
  const { importModel } = await import('../../adapters/models/import-model.ts')
  const { namedOrMadePython } = await import('../../stack/setup/set-up.ts')
  const { trainerEnvironment } = await import('../../stack/environment.ts')
  const python = await namedOrMadePython()
  let progress = 'reading the source'
  const record = await untilInterrupted((signal) =>
    whileReporting({ console, what: () => progress }, ({ note, changed }) =>
      importModel({
        source,
        output: options.output,
        chatFormat: options.chatFormat ?? null,
        tokenizer: options.tokenizer ?? null,
        python,
        environment: { ...process.env, ...trainerEnvironment() },
        log: note,
        onProgress: (text) => {
          progress = text
          changed()
        },
        signal,
      }),
    ),
  )
  if (options.json === true) console.record(record)
  else console.out(formatImport(record))
}

/** A path that exists on this machine is read from there; any other OWNER/NAME is a model of the hub. */
async function readSource(argument: string, options: ImportOptions): Promise<string | HubModel> {
  const { revision, file, tokenVariable } = options
  const isHere = await exists(argument)
  const isName = /^[\w.-]+\/[\w.-]+$/.test(argument) && !argument.startsWith('.')
  if (!isHere && isName && !/\.(?:gguf|safetensors|bin|pt|pth)$/.test(argument)) {
    return {
      name: argument,
      revision: revision ?? '',
      file: file ?? null,
      hubUrl: hubUrlOf(options),
      token: { variable: tokenVariable, value: process.env[tokenVariable] || null },
    }
  }
  if (revision === undefined && file === undefined) {
    if ((await isDirectory(argument)) || (isHere && argument.endsWith('.gguf'))) return argument
    throw new LonghaulError({
      code: isHere ? 'Config.Invalid' : 'Config.NotFound',
      message: `Expected a model directory or a .gguf file at ${resolve(argument)}, ${isHere ? 'got another file: name the directory with config.json and safetensors; pickles run code when they are read and are refused' : 'there is nothing'}`,
    })
  }
  throw new LonghaulError({
    code: 'Config.Invalid',
    message:
      'Expected --revision and --file only with a model of the hub (OWNER/NAME): a directory or file is one revision',
    details: { source: argument },
  })
}

/** @throws LonghaulError `Config.Invalid`, before a Python is started or its environment created */
async function requireDirectories({ output, tokenizer }: ImportOptions): Promise<void> {
  const fault =
    tokenizer !== undefined && !(await isDirectory(tokenizer))
      ? `Expected --tokenizer to be a directory, got ${tokenizer}`
      : (await exists(output))
        ? `Expected ${resolve(output)} to be free: an import never overwrites`
        : null
  if (fault !== null) throw new LonghaulError({ code: 'Config.Invalid', message: fault })
}

function formatImport({
  architecture,
  parameters,
  dtypes,
  tied,
  chat_format: format,
  chat,
  proof,
  directory,
}: ImportRecord): string {
  const size = parameters >= 1e9 ? `${(parameters / 1e9).toFixed(2)}e9` : `${(parameters / 1e6).toFixed(2)}e6`
  return [
    `${directory}: ${architecture}, ${size} parameters in ${dtypes.join(' and ')}, ${tied ? 'tied' : 'untied'} embeddings`,
    `chat format ${format}; the model’s template: ${chat.template}`,
    `logits at ${proof.positions} positions equal the source’s: largest difference ${proof.largest_difference}, their spread ${proof.spread_of_logits}`,
    `Use it in a recipe: model: { base: ${directory}${format === 'chatml' ? '' : `, chatFormat: ${format}`} }`,
  ].join('\n')
}
