/** Settings that are valid on their own but impossible together. They are refused at the start, because a back end would silently
 *  ignore them. */
import type { OptimizerRecipe } from '../../contracts/recipe.types.ts'
import { isProfile, scaffoldProfile } from '../../scaffold/profiles.ts'
import { limitNames } from '../../domain/statistics/evaluation-limits.ts'
import { contextRoom, problem, type Settings, suiteSize, timeLimits } from './combination.ts'
import type { KeyPath, RecipeProblem } from './explain-issues.ts'
import { launchedEngines } from './engine-combinations.ts'
import { reinforcement } from './reinforce-combinations.ts'
import { trainerShape } from './trainer-combinations.ts'
import { NEWEST_SPLIT, type SuiteSource } from '../../contracts/tasks.types.ts'
import { resolve } from 'node:path'
import type { TrackerRecipe } from '../../contracts/trackers.types.ts'
import type { SamplingOptions } from '../../contracts/episodes.types.ts'
import { NEUTRAL_SAMPLING } from '../../contracts/neutral-sampling.ts'

/** The default of the recipe's schema. */
const DEFAULT_LEASE_S = 3600

type Check = (recipe: Settings) => RecipeProblem[]

const CHECKS: Check[] = [
  server,
  positions,
  chatEndpoint,
  serverAddresses,
  evaluation,
  fineTuning,
  reinforcement,
  sandboxSizes,
  trainerShape,
  timeLimits,
  network,
  curation,
  pinnedSplits,
  demonstrations,
  schedules,
  ratesOfReinforcement,
  trackers,
]

export function checkCombinations(recipe: Settings): RecipeProblem[] {
  return CHECKS.flatMap((check) => check(recipe))
}

function server({ policyServer, rft, reinforce, model, trainer }: Settings): RecipeProblem[] {
  const problems: RecipeProblem[] = []
  if (policyServer.kind === 'chat' && (rft !== null || reinforce !== null)) {
    problems.push(
      problem(
        ['policyServer', 'kind'],
        'expected a server that returns token ids for training, got "chat"',
        'use embedded, vllm or sglang; with chat, leave out rft and reinforce and evaluate only',
      ),
    )
  }
  if (
    policyServer.replicas.length > 0 &&
    policyServer.launch === null &&
    (policyServer.kind === 'chat' || policyServer.url === null)
  ) {
    problems.push(
      problem(
        ['policyServer', 'replicas'],
        policyServer.kind === 'chat'
          ? 'has no effect with kind: chat'
          : 'expected policyServer.url to name the first server',
        'name every server: the first in policyServer.url, the others here; a chat endpoint is one address',
      ),
    )
  }
  if (policyServer.publish !== null && (policyServer.kind === 'embedded' || policyServer.kind === 'chat')) {
    problems.push(
      problem(
        ['policyServer', 'publish'],
        `has no effect with kind: ${policyServer.kind}`,
        'remove it: the embedded server reads weights in place, a chat endpoint is given none',
      ),
    )
  }
  problems.push(...launchedEngines({ policyServer, trainer }))
  if (policyServer.kind !== 'embedded' && policyServer.leaseS !== DEFAULT_LEASE_S) {
    problems.push(
      problem(
        ['policyServer', 'leaseS'],
        `has no effect with kind: ${policyServer.kind}`,
        `remove it, or leave it at ${DEFAULT_LEASE_S}: only the embedded server holds several policies and lends them`,
      ),
    )
  }
  if ((model.train === 'lora') !== (model.lora !== null)) {
    problems.push(
      problem(
        ['model', 'lora'],
        model.lora === null ? 'expected rank and alpha with train: lora, got null' : 'has no effect with train: full',
        'adapters need both: train: lora and lora: { rank: 16, alpha: 32 }',
      ),
    )
  }
  return problems
}

/** Without a rope the limit is in the model's own config.json, which is read together with the model. */
function positions({ model: { rope }, rft, reinforce, evaluate }: Settings): RecipeProblem[] {
  if (rope === null) return []
  const reach = Math.trunc(rope.factor * rope.originalMax)
  const contexts: [path: KeyPath, tokens: number][] = [
    ...(rft === null ? [] : [[['rft', 'context'], rft.context] as [KeyPath, number]]),
    ...(reinforce?.stages ?? []).map(({ context }, index): [KeyPath, number] => [
      ['reinforce', 'stages', index, 'context'],
      context,
    ]),
    [['evaluate', 'context'], evaluate.context],
    ...Object.entries(evaluate.limits).map(([name, { context }]): [KeyPath, number] => [
      ['evaluate', 'limits', name, 'context'],
      context,
    ]),
  ]
  return contexts
    .filter(([, tokens]) => tokens > reach)
    .map(([path, tokens]) =>
      problem(
        path,
        `expected at most the ${reach} positions that model.rope reaches, got ${tokens}`,
        `model.rope stretches ${rope.originalMax} positions by ${rope.factor}: raise the factor or shorten the context`,
      ),
    )
}

function evaluation({ evaluate, reinforce, rft, scaffold }: Settings): RecipeProblem[] {
  const { maxTokensPerTurn } = scaffold.limits
  const problems: RecipeProblem[] = []
  const names = limitNames({ rft, reinforce })
  for (const [name, limits] of Object.entries(evaluate.limits)) {
    const path = ['evaluate', 'limits', name]
    if (names.includes(name)) problems.push(...contextRoom(path, limits, maxTokensPerTurn))
    else problems.push(problem(path, 'is not evaluated by this recipe', `known here: ${names.join(', ')}`))
  }
  if (evaluate.sampling === 'modelDefault' && evaluate.modelSampling === null) {
    problems.push(
      problem(
        ['evaluate', 'sampling'],
        'expected the base model to publish a generation_config.json, found none',
        'write its values into evaluate.modelSampling, or use sampling: train',
      ),
    )
  }
  if (evaluate.sampling === 'train' && evaluate.modelSampling !== null) {
    problems.push(
      problem(['evaluate', 'modelSampling'], 'has no effect with sampling: train', 'remove it or use modelDefault'),
    )
  }
  if (evaluate.quick !== null && (reinforce?.evaluateEvery ?? null) === null) {
    problems.push(
      problem(
        ['evaluate', 'quick'],
        'has no effect without reinforce.evaluateEvery',
        'it is what evaluations inside a stage play: say how often there is one',
      ),
    )
  }
  const reserved = Object.keys(evaluate.suites).filter((name) => name === 'train' || name === 'heldOut')
  return [
    ...problems,
    ...reserved.map((name) =>
      problem(
        ['evaluate', 'suites', name],
        'expected another name than those of the suites under data',
        'suites here are further ones; data.heldOut is evaluated anyway',
      ),
    ),
  ]
}

function fineTuning({ rft, data, scaffold }: Settings): RecipeProblem[] {
  if (rft === null) return []
  const problems: RecipeProblem[] = []
  const tasks = rft.tasks ?? suiteSize(data.train)
  if (rft.tasks !== null && suiteSize(data.train) !== null && rft.tasks > (suiteSize(data.train) ?? 0)) {
    problems.push(
      problem(
        ['rft', 'tasks'],
        `expected at most the ${suiteSize(data.train)} tasks of data.train, got ${rft.tasks}`,
        'raise data.train.count or lower rft.tasks',
      ),
    )
  }
  if (tasks !== null && rft.batch > tasks * rft.rolloutsPerTask) {
    problems.push(
      problem(
        ['rft', 'batch'],
        `expected at most ${tasks} tasks × ${rft.rolloutsPerTask} rollouts = ${tasks * rft.rolloutsPerTask} trajectories, got ${rft.batch}`,
        'one optimizer step cannot hold more than is collected',
      ),
    )
  }
  if (rft.trainWithDemonstration && !rft.demonstration) {
    problems.push(
      problem(
        ['rft', 'trainWithDemonstration'],
        'expected false where rft.demonstration is false, got true',
        'nothing was demonstrated that could stay in the training text',
      ),
    )
  }
  return [...problems, ...contextRoom(['rft'], rft, scaffold.limits.maxTokensPerTurn)]
}

function sandboxSizes({ sandbox }: Settings): RecipeProblem[] {
  const { request, limit } = sandbox
  return (['cpu', 'memGiB'] as const)
    .filter((key) => request[key] > limit[key])
    .map((key) =>
      problem(
        ['sandbox', 'request', key],
        `expected at most sandbox.limit.${key} ${limit[key]}, got ${request[key]}`,
        'a container cannot ask for more than it may use',
      ),
    )
}

/** Refused, because an episode in a sandbox without the network that the recipe's author intended would look like a failure of the
 *  agent. */
function network({ sandbox }: Settings): RecipeProblem[] {
  const { network: kind, allow } = sandbox
  if (kind === 'proxy' && allow.length === 0) {
    const toDo = 'name them as pypi.org, *.example.org or mirror.example.org:8443, or set network: none'
    return [problem(['sandbox', 'allow'], 'expected at least one host for network: proxy, got none', toDo)]
  }
  if (kind === 'none' && allow.length > 0) {
    const toDo = 'set network: proxy, or leave allow out'
    return [problem(['sandbox', 'network'], 'expected "proxy" beside a list of allowed hosts, got "none"', toDo)]
  }
  return []
}

/** Synthesised tasks have none of the columns that the filters read. */
function curation({ data }: Settings): RecipeProblem[] {
  if (data.train.kind !== 'synthetic' || data.heldOut.kind !== 'synthetic') return []
  return Object.entries(data.filters)
    .filter(([, value]) => value !== null && value !== 'keep')
    .map(([key]) =>
      problem(
        ['data', 'filters', key],
        'has no effect on synthesised tasks',
        'they have nothing that filters read; leave it out, or name published tasks',
      ),
    )
}

/** Requires a pinned commit, because a branch moves under a published figure. Only `split: newest` is meant to move. */
function pinnedSplits({ data, evaluate }: Settings): RecipeProblem[] {
  const sources: [KeyPath, SuiteSource][] = [
    [['data', 'train'], data.train],
    [['data', 'heldOut'], data.heldOut],
    ...Object.entries(evaluate.suites).map(([name, source]): [KeyPath, SuiteSource] => [
      ['evaluate', 'suites', name],
      source,
    ]),
  ]
  return sources
    .filter(([, source]) => source.kind === 'hub' && source.revision === null && source.split !== NEWEST_SPLIT)
    .map(([path]) =>
      problem(
        path,
        'expected revision, a commit of 40 hexadecimal digits',
        'branches and tags move; split: newest needs none: each run is pinned to the split that it finds',
      ),
    )
}

function demonstrations({ scaffold, rft, evaluate }: Settings): RecipeProblem[] {
  const { profile } = scaffold
  // The look-up of the profile refuses one that does not exist.
  if (!isProfile(profile) || scaffoldProfile(profile).demonstration !== null) return []
  const wanted: KeyPath[] = [
    ...(rft?.demonstration === true ? [['rft', 'demonstration']] : []),
    ...(evaluate.demonstration ? [['evaluate', 'demonstration']] : []),
  ]
  return wanted.map((path) =>
    problem(path, `has no effect with scaffold.profile: ${profile}`, 'this profile has no demonstration: leave it out'),
  )
}

/** The rate is a function of the run's optimizer steps, and `totalSteps` of a job counts those of one iteration. */
function ratesOfReinforcement({ rft, reinforce }: Settings): RecipeProblem[] {
  if (reinforce === null) return []
  const { schedule, warmupSteps } = reinforce.optim
  return [
    ...(schedule === 'constant'
      ? []
      : [
          problem(
            ['reinforce', 'optim', 'schedule'],
            `expected constant, got ${schedule}: the number of iterations is open, so the rate would end within the first`,
            'leave it out',
          ),
        ]),
    ...(rft === null || warmupSteps === 0
      ? []
      : [
          problem(
            ['reinforce', 'optim', 'warmupSteps'],
            `expected 0, got ${warmupSteps}: a warm-up counts the steps of the run, and fine-tuning has taken the first`,
            'leave it out',
          ),
        ]),
  ]
}

function schedules({ rft, reinforce }: Settings): RecipeProblem[] {
  const optimizers: [KeyPath, OptimizerRecipe | undefined][] = [
    [['rft', 'optim', 'endLr'], rft?.optim],
    [['reinforce', 'optim', 'endLr'], reinforce?.optim],
  ]
  return optimizers
    .filter(([, optim]) => optim?.schedule === 'constant' && optim.endLr !== 0)
    .map(([path]) =>
      problem(
        path,
        'has no effect with schedule: constant',
        'leave it out, or let the rate fall: schedule: linear or cosine',
      ),
    )
}

/** Refuses addresses that no request can be sent to, that hold a secret, or that name one server twice. */
function serverAddresses({ policyServer: { kind, url, replicas } }: Settings): RecipeProblem[] {
  const named: [KeyPath, string][] = [
    ...(url === null ? [] : [[['policyServer', 'url'], url] as [KeyPath, string]]),
    ...replicas.map((replica, index): [KeyPath, string] => [['policyServer', 'replicas', index], replica]),
  ]
  const bare = named.map(([, address]) => new URL(address).href.replace(/\/+$/, ''))
  return named.flatMap(([path, address], index) => {
    const { username, password, search, hash } = new URL(address)
    if (`${username}${password}${search}${hash}` !== '') {
      const key =
        kind === 'chat'
          ? 'into a variable of the workers and its name into policyServer.chat.apiKeyVariable'
          : 'into LONGHAUL_POLICY_API_KEY of the workers'
      return [
        problem(
          path,
          'expected an address without user, password, query or fragment: recipes are stored with their runs',
          `put the key ${key}`,
        ),
      ]
    }
    const first = bare.indexOf(bare[index] ?? '')
    if (first === index) return []
    const other = first === 0 ? 'policyServer.url' : `policyServer.replicas[${first - 1}]`
    return [problem(path, `is the same server as ${other}`, 'name each server once: a session stays with one server')]
  })
}

/** Decoding options without a field in OpenAI's interface, which must therefore be off. */
const UNKNOWN_TO_STANDARD = ['topK', 'minP', 'repetitionPenalty'] as const satisfies (keyof SamplingOptions)[]

/** Refuses an endpoint that could not be reached, or that would silently ignore an option of the recipe. */
function chatEndpoint({ policyServer, evaluate, rollout }: Settings): RecipeProblem[] {
  const { kind, url, chat } = policyServer
  if (kind !== 'chat') {
    return chat === null
      ? []
      : [problem(['policyServer', 'chat'], `has no effect with kind: ${kind}`, 'remove it, or use kind: chat')]
  }
  const problems: RecipeProblem[] = []
  if (url === null) {
    problems.push(
      problem(
        ['policyServer', 'kind'],
        'expected policyServer.url beside kind: chat, got nothing',
        'the base address of the endpoint, as https://api.example.com/v1',
      ),
    )
  }
  const sampling = evaluate.sampling === 'modelDefault' ? evaluate.modelSampling : rollout.sampling
  if (chat?.samplingFields === 'standard' && sampling !== null) {
    const where = evaluate.sampling === 'modelDefault' ? ['evaluate', 'modelSampling'] : ['rollout', 'sampling']
    for (const key of UNKNOWN_TO_STANDARD) {
      const off = NEUTRAL_SAMPLING[key]
      if (sampling[key] === off) continue
      problems.push(
        problem(
          [...where, key],
          `expected ${off} with policyServer.chat.samplingFields: standard, got ${sampling[key]}`,
          'OpenAI’s interface has no such field; an endpoint of vLLM, SGLang or llama.cpp takes samplingFields: all',
        ),
      )
    }
  }
  return problems
}

function trackers({ trackers }: Settings): RecipeProblem[] {
  return trackers.flatMap((tracker, index) => {
    const path = ['trackers', index]
    const problems: RecipeProblem[] = []
    if (tracker.kind === 'mlflow' && hasUser(tracker.url)) {
      const message = 'expected an address without a user in it'
      problems.push(problem([...path, 'url'], message, 'name the variable that holds the token in tokenVariable'))
    }
    const first = trackers.findIndex((other) => placeOf(other) === placeOf(tracker))
    if (first < index) {
      problems.push(problem(path, `is the same place as trackers[${first}]`, 'name each tracker once'))
    }
    return problems
  })
}

function hasUser(url: string): boolean {
  const { username, password } = new URL(url)
  return username !== '' || password !== ''
}

function placeOf(tracker: TrackerRecipe): string {
  if (tracker.kind === 'tensorboard') return resolve(tracker.directory)
  if (tracker.kind === 'wandb') return `wandb ${resolve(tracker.directory)} ${tracker.entity} ${tracker.project}`
  return `${tracker.url.replace(/\/+$/, '')} ${tracker.experiment}`
}
