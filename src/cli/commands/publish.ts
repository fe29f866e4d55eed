import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import type { PublishedFile, PolicyFiles } from '../../adapters/models/policy-files.ts'
import type { PublishRecord, PublishResult } from '../../adapters/models/publish-model.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import { sha256Hex } from '../../platform/hash.ts'
import type { ModelFacts } from '../../report/exports/model-card.ts'
import type { CommandContext } from '../command-context.ts'
import { untilInterrupted } from '../output/console.ts'
import { whileReporting } from '../output/live-lines.ts'
import { dryRunOption, examples, hubUrlOf, hubUrlOption, jsonOption, storedPolicyName } from '../arguments/options.ts'
import { openStoreWithWeights } from '../local-stack.ts'

interface PublishOptions {
  to: string
  revision: string
  private?: true
  license?: string
  replace?: true
  adapter?: true
  hubUrl?: string
  tokenVariable: string
  dryRun?: true
  json?: true
}

/** One line of stdout with `--json`. */
interface PublishAnswer extends PublishResult {
  policy: string
  manifestSha256: string
  repository: string
  branch: string
  url: string
  dryRun: boolean
  /** Only for a dry run: the whole card. */
  card?: string
}

export function addPublish(program: Command, context: CommandContext): void {
  program
    .command('publish')
    .argument(
      '<policy>',
      'version of a policy such as v000012-1a2b3c4d, or promoted for the newest promoted one',
      storedPolicyName,
    )
    .description('push a policy to a hub, with its card: recipe, scores with intervals, data, licences')
    .requiredOption('--to <owner/name>', 'the repository; created if it does not exist')
    .option('--revision <branch>', 'branch of the repository; created empty if it does not exist', 'main')
    .option('--private', 'make a new repository private; an existing public one is refused')
    .option('--license <id>', 'licence of the model in the hub’s words, such as apache-2.0 (default: unknown)')
    .option('--adapter', 'only the adapters of a policy that was trained with LoRA, in PEFT’s layout')
    .option('--replace', 'replace the model of another policy; other files of the repository stay')
    .addOption(hubUrlOption())
    .option('--token-variable <name>', 'environment variable with a token that may write there', 'HF_TOKEN')
    .addOption(dryRunOption())
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples(
        'longhaul publish promoted --to my-team/repair-4b --license apache-2.0',
        'longhaul publish v000012-1a2b3c4d --to my-team/repair-4b --revision v000012-1a2b3c4d --private',
        'longhaul publish promoted --to my-team/repair-4b-lora --adapter',
        'longhaul publish promoted --to my-team/repair-4b --dry-run',
      ),
    )
    .addHelpText(
      'after',
      'One commit holds the whole model; a failed push makes no commit. Repeating the command sends only missing files, and changes nothing if all are there.\nExit: 1 the hub or the repository refuses; 2 the hub does not answer, or weights are damaged. The message says what to do.',
    )
    .action((policy: string, options: PublishOptions) => publish(policy, options, context))
}

async function publish(asked: string, options: PublishOptions, { console }: CommandContext): Promise<void> {
  const target = readTarget(options)
  const { name, branch } = target
  const [{ findPublishable, gatherModelFacts }, { readPolicyFiles }, { publishModel, RECORD }, { renderModelCard }] =
    await Promise.all([
      import('../../activities/exports/model-facts.ts'),
      import('../../adapters/models/policy-files.ts'),
      import('../../adapters/models/publish-model.ts'),
      import('../../report/exports/model-card.ts'),
    ])
  const store = await openStoreWithWeights({ writes: options.dryRun !== true })
  const policy = await findPublishable(store, asked)
  const { version, manifestSha256 } = policy
  const kind = options.adapter === true ? 'adapter' : 'model'
  let progress = 'reading the records'
  const { result, card } = await untilInterrupted((signal) =>
    whileReporting({ console, what: () => progress }, ({ note, changed }) => {
      const onProgress = (text: string): void => {
        progress = text
        changed()
      }
      return store.weights.use({ policy, part: 'policy', signal }, async () => {
        const directory = fileURLToPath(store.weights.local(policy).uri)
        const secrets = target.token.value === null ? [] : [target.token.value]
        const model = await readPolicyFiles({ directory, manifestSha256, secrets, onProgress, signal })
        const facts = await gatherModelFacts({ store, policy, onProgress, signal })
        const serve = await startCommands({ model, facts, name })
        const send = async (files: readonly PublishedFile[]): Promise<{ result: PublishResult; card: string }> => {
          const license = options.license ?? null
          const card = renderModelCard({ facts, kind, repository: name, branch, license, serve, files })
          const record: PublishRecord = {
            schema: 'longhaul.published/1',
            policy: version,
            manifest_sha256: manifestSha256,
            kind,
            files: Object.fromEntries(files.map(({ path, sha256 }) => [path, sha256])),
          }
          const texts = [textFile('README.md', card), textFile(RECORD, `${JSON.stringify(record, null, 1)}\n`)]
          onProgress('asking the hub')
          const isDry = options.dryRun === true
          const all = [...files, ...texts]
          return {
            result: await publishModel({ target, record, files: all, isDry, log: note, onProgress, signal }),
            card,
          }
        }
        if (kind === 'model') return send(model.files)
        onProgress('comparing the adapters’ base')
        return withAdapters({ store, policy, facts, signal }, send)
      })
    }),
  )
  const answer: PublishAnswer = {
    policy: version,
    manifestSha256,
    repository: name,
    branch,
    url: pageOf(target.hubUrl, name),
    dryRun: options.dryRun === true,
    ...result,
    ...(options.dryRun === true ? { card } : {}),
  }
  if (options.json === true) console.record(answer)
  else console.out(formatPublished(answer))
}

/** @throws LonghaulError `Config.Invalid` */
function readTarget(options: PublishOptions) {
  const { to, revision, license, tokenVariable } = options
  if (!/^[A-Za-z0-9][\w.-]{0,95}\/[A-Za-z0-9][\w.-]{0,95}$/.test(to)) {
    throw invalid(`Expected --to to be OWNER/NAME, got ${JSON.stringify(to)}`)
  }
  if (!/^[A-Za-z0-9][\w.-]{0,99}$/.test(revision) || /^[0-9a-f]{40}$/.test(revision)) {
    throw invalid(`Expected --revision to be the name of a branch, without slashes, got ${JSON.stringify(revision)}`)
  }
  if (license !== undefined && !/^[a-z0-9][a-z0-9.+-]{0,60}$/.test(license)) {
    throw invalid(
      `Expected --license to be a word of the hub, such as mit, apache-2.0, cc-by-4.0 or other, got ${JSON.stringify(license)}`,
    )
  }
  const value = process.env[tokenVariable] || null
  if (value === null && options.dryRun !== true) {
    throw invalid(
      `Expected a token that may write to ${to} in ${tokenVariable}: make one at the hub and set it, or name another variable with --token-variable`,
    )
  }
  return {
    name: to,
    branch: revision,
    isPrivate: options.private === true,
    replaces: options.replace === true,
    hubUrl: hubUrlOf(options),
    token: { variable: tokenVariable, value },
  }
}

/** Runs `work` with a policy's adapters as files in PEFT's layout. @throws LonghaulError `Config.Invalid` if there are none */
async function withAdapters<T>(
  input: { store: ArtifactStore; policy: PolicyRef; facts: ModelFacts; signal: AbortSignal },
  work: (files: readonly PublishedFile[]) => Promise<T>,
): Promise<T> {
  const { store, policy, facts, signal } = input
  const [{ findAdapterBase }, { readAdapterFiles }, { namedOrMadePython }, { trainerEnvironment }] = await Promise.all([
    import('../../activities/exports/model-facts.ts'),
    import('../../adapters/models/policy-files.ts'),
    import('../../stack/setup/set-up.ts'),
    import('../../stack/environment.ts'),
  ])
  const { base, origin } = await findAdapterBase(store, policy, facts)
  const python = await namedOrMadePython()
  const environment = { ...process.env, ...trainerEnvironment() }
  const room = await mkdtemp(join(tmpdir(), 'longhaul-adapter-'))
  try {
    return await store.weights.use({ policy, part: 'checkpoint', signal }, () =>
      store.weights.use({ policy: base, part: 'policy', signal }, async () => {
        const checkpoint = fileURLToPath(store.weights.local(policy).checkpointUri ?? '')
        const target = join(room, 'adapter')
        const { checkpointSha256 } = policy
        const places = { checkpoint, checkpointSha256, base: fileURLToPath(store.weights.local(base).uri), target }
        return work(await readAdapterFiles({ ...places, origin, python, environment, signal }))
      }),
    )
  } finally {
    await rm(room, { recursive: true, force: true })
  }
}

/** Start commands as `longhaul policy-server command` prints them, for the directory into which the card says to download the model. */
async function startCommands({
  model,
  facts,
  name,
}: {
  model: PolicyFiles
  facts: ModelFacts
  name: string
}): Promise<{ engine: string; command: string }[]> {
  const [{ spellCommand, startCommand, startPositions }, { readPositions }] = await Promise.all([
    import('../../adapters/policy-server/start-command.ts'),
    import('../../adapters/trainer-job/job/rope-statement.ts'),
  ])
  const directory = name.split('/').at(-1) ?? name
  const { configJson } = model
  const { window } = readPositions(configJson)
  const asked = facts.recipe?.context ?? window
  if (asked === null) return []
  const context = window === null ? asked : Math.min(asked, window)
  const { overrides } = startPositions({ configJson, directory, context })
  const dtype = model.dtype === 'float32' ? 'float32' : 'bfloat16'
  const common = { directory, version: facts.policy.version, context, dtype, overrides } as const
  const settings = { publish: 'restart', deterministic: false, port: 8000 } as const
  return [
    { engine: 'vLLM', command: spellCommand(startCommand({ kind: 'vllm', ...common, ...settings })) },
    { engine: 'SGLang', command: spellCommand(startCommand({ kind: 'sglang', ...common, ...settings })) },
  ]
}

function textFile(path: string, text: string): PublishedFile {
  return { path, bytes: Buffer.byteLength(text), sha256: sha256Hex(text), content: { text } }
}

function pageOf(hubUrl: string | null, name: string): string {
  return `${(hubUrl ?? 'https://huggingface.co').replace(/\/$/, '')}/${name}`
}

function formatPublished({
  policy,
  url,
  branch,
  changed,
  created,
  commit,
  written,
  removed,
  dryRun,
  card,
}: PublishAnswer): string {
  const place = `${url} (${branch})`
  if (!changed) return `${place} holds ${policy} already: nothing changed`
  const removals = removed.length === 0 ? '' : `, and remove ${removed.join(', ')},`
  if (dryRun) {
    return `Would ${created ? 'make the repository and ' : ''}commit ${written.join(', ')}${removals} to ${place}. The card:\n\n${card ?? ''}`
  }
  return `${policy} is at ${place}, commit ${commit ?? ''}: ${written.length} files written${removed.length === 0 ? '' : `, ${removed.length} removed`}`
}

function invalid(message: string): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message })
}
