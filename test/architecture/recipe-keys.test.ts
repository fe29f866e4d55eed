/**
 * No key of a recipe does nothing. Each key with more than one value is read where this table says; a key with one value is a
 * statement that the reader may rely on. A new key fails here until it has a reader, a reader that goes away until its key does.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { recipeJsonSchema, type SchemaNode } from '../../src/adapters/recipes/schema-map.ts'

const root = new URL('../../', import.meta.url)

const SUITE = '{data.train,data.heldOut,evaluate.suites.*}'
const SAMPLING = '{rollout.sampling,evaluate.modelSampling}'
const OPTIM = '{rft,reinforce}.optim'
const STAGE = 'reinforce.stages.[]'

/** Keys → the file that acts on them. `{a,b}` stands for each; a key's last name must be read there. */
const READERS: Record<string, string> = {
  seed: 'src/adapters/trainer-job/job/job-config.ts',
  'model.base': 'src/workers/compose-control.ts',
  'model.lora.{rank,alpha}': 'src/adapters/trainer-job/job/job-config.ts',
  'model.chatFormat': 'src/activities/episode/episode-spec.ts',
  'model.cutoff': 'src/activities/evaluation/report-data.ts',
  'model.rope.{factor,originalMax}': 'src/adapters/trainer-job/job/rope-statement.ts',
  [`${SUITE}.kind`]: 'src/adapters/datasets/load-tasks.ts',
  [`${SUITE}.{family,seed,split,count,offset}`]: 'src/adapters/datasets/synthetic/synthesize.ts',
  [`${SUITE}.{path,limit}`]: 'src/adapters/datasets/load-tasks.ts',
  [`${SUITE}.{filters,ids,evidence,refused}`]: 'src/adapters/datasets/published-suite.ts',
  [`${SUITE}.{dataset,revision}`]: 'src/adapters/datasets/hub-files.ts',
  'data.filters.{hiddenNames,maxFiles,maxLines,dropLlmScore,flakyTrials}': 'src/domain/gates/filter-words.ts',
  'data.overlap': 'src/activities/evaluation/require-disjoint.ts',
  'data.gate.repeats': 'src/activities/run/resolve-recipe.ts',
  'data.gate.refused': 'src/activities/gate/close-gate.ts',
  'data.gate.width': 'src/activities/gate/gate-width.ts',
  'scaffold.profile': 'src/activities/episode/episode-spec.ts',
  'scaffold.submit.capture': 'src/activities/episode/episode-spec.ts',
  'scaffold.limits.{commandTimeoutS,maxTokensPerTurn}': 'src/activities/episode/episode-spec.ts',
  'sandbox.request.{cpu,memGiB}': 'src/activities/episode/open-sandbox.ts',
  'sandbox.limit.{cpu,memGiB,pids,diskGiB}': 'src/activities/episode/open-sandbox.ts',
  'sandbox.{network,allow,runtime}': 'src/activities/episode/open-sandbox.ts',
  [`${SAMPLING}.{temperature,topP,topK,minP,repetitionPenalty,presencePenalty,frequencyPenalty}`]:
    'src/adapters/policy-server/dialect.ts',
  'rollout.{turnsPerStep,episodeTimeoutS}': 'src/activities/episode/episode-spec.ts',
  'rollout.{maxOpenEpisodes,maxReplacements}': 'src/activities/run/require-whole-groups.ts',
  'rft.{tasks,rolloutsPerTask}': 'src/activities/run/require-whole-groups.ts',
  'rft.{demonstration,maxTurns,context}': 'src/activities/episode/episode-spec.ts',
  'rft.{trainWithDemonstration,maxPerTask,mask.formatErrorTurns,maxSteps,stepsPerJob}':
    'src/activities/training/build-batch.ts',
  'rft.{epochs,batch}': 'src/adapters/trainer-job/job/job-config.ts',
  [`${OPTIM}.{lr,betas,eps,weightDecay,gradClip,schedule,warmupSteps,states,endLr}`]:
    'src/adapters/trainer-job/job/job-config.ts',
  'reinforce.groupSize': 'src/activities/run/require-whole-groups.ts',
  'reinforce.{minGroupSize,filter.on,filter.alsoZeroAdvantage,filter.minGroupStd}':
    'src/domain/rewards/group-selection.ts',
  'reinforce.filter.refill': 'src/activities/run/plan-iteration.ts',
  'reinforce.reward.{pass,fail,unsubmitted,turnPenalty.min,contextPenalty.start,contextPenalty.min}':
    'src/domain/rewards/rewards.ts',
  'reinforce.stepRewards.{formatError,stoppedCommand}': 'src/domain/rewards/step-rewards.ts',
  'reinforce.stepRewards.weight': 'src/activities/training/turn-rewards.ts',
  'reinforce.experts.below': 'src/domain/rewards/experts.ts',
  'reinforce.experts.weight': 'src/activities/training/build-batch.ts',
  'reinforce.advantage.{scale,delta}': 'src/domain/rewards/group-selection.ts',
  'reinforce.loss.{algorithm,entropy,kl.coefficient,dualClip,behaviourCorrection,sequenceMask.low,sequenceMask.high}':
    'src/adapters/trainer-job/job/job-config.ts',
  'reinforce.loss.kl': 'src/adapters/trainer-job/job/job-config.ts',
  'reinforce.loss.kl.reference': 'src/activities/training/policies.ts',
  'reinforce.overlong': 'src/domain/rewards/group-selection.ts',
  'reinforce.{oldLogprobs,epochsPerIteration}': 'src/adapters/trainer-job/job/job-config.ts',
  'reinforce.mask.formatErrorTurns': 'src/activities/training/build-batch.ts',
  'reinforce.keepState': 'src/adapters/trainer-job/job/job-spec.ts',
  'reinforce.evaluateEvery': 'src/activities/run/resolve-recipe.ts',
  [`${STAGE}.name`]: 'src/adapters/trainer-job/job/job-config.ts',
  [`${STAGE}.{context,maxTurns}`]: 'src/activities/episode/episode-spec.ts',
  [`${STAGE}.penaltyStart`]: 'src/domain/rewards/rewards.ts',
  [`${STAGE}.problemsPerIteration`]: 'src/activities/run/require-whole-groups.ts',
  [`${STAGE}.select.{dropSuccessAtLeast,dropNeverSolved,unseen}`]: 'src/domain/rewards/stage-rules.ts',
  [`${STAGE}.select.over`]: 'src/activities/run/plan-iteration.ts',
  [`${STAGE}.{batch,batch.tokens,clip.low,clip.high}`]: 'src/adapters/trainer-job/job/job-config.ts',
  [`${STAGE}.until.maxIterations`]: 'src/activities/run/resolve-recipe.ts',
  [`${STAGE}.until.plateau.{window,minGain}`]: 'src/domain/rewards/plateau.ts',
  'evaluate.attempts': 'src/activities/run/require-whole-groups.ts',
  'evaluate.{tasks,quick}': 'src/activities/evaluation/prepare-suite.ts',
  'evaluate.demonstration': 'src/activities/episode/episode-spec.ts',
  'evaluate.{maxTurns,context}': 'src/domain/statistics/evaluation-limits.ts',
  'evaluate.limits.*.{maxTurns,context}': 'src/domain/statistics/evaluation-limits.ts',
  'evaluate.policy': 'src/activities/training/policies.ts',
  'evaluate.compare.{last,baseline}': 'src/activities/evaluation/record-night.ts',
  'evaluate.compare.{margin,confidence,minGraded}': 'src/domain/statistics/judge-night.ts',
  'promotion.gate': 'src/activities/training/promote-by-rule.ts',
  'promotion.{margin,confidence,minGraded}': 'src/domain/statistics/judge-night.ts',
  'grading.unauditedRewards': 'src/domain/rewards/payment.ts',
  'evaluate.prices.currency': 'src/report/evaluation-tables.ts',
  'evaluate.prices.perMillionTokens.{input,cachedInput,output}': 'src/domain/statistics/run-costs.ts',
  'evaluate.prices.machines.[].{count,perHour}': 'src/domain/statistics/run-costs.ts',
  'policyServer.kind': 'src/adapters/policy-server/client.ts',
  'policyServer.{url,replicas,publish,patienceS}': 'src/activities/runtime/policy-clients.ts',
  'policyServer.launch.{replicas,port,startTimeoutS}': 'src/activities/training/launched-engines.ts',
  'policyServer.launch.{host,program,arguments,environment,gpus}': 'src/adapters/engines/engine-command.ts',
  'policyServer.launch.placement': 'src/workers/compose-trainer.ts',
  'policyServer.leaseS': 'src/activities/training/publish-policy.ts',
  'policyServer.chat.apiKeyVariable': 'src/workers/connect.ts',
  'policyServer.chat.requestTimeoutS': 'src/adapters/chat-endpoint/chat-client.ts',
  'policyServer.chat.stream': 'src/adapters/chat-endpoint/chat-client.ts',
  'policyServer.chat.{seed,samplingFields,maxTokensField}': 'src/adapters/chat-endpoint/chat-exchange.ts',
  'trainer.launcher': 'src/adapters/trainer-job/launchers/create-launcher.ts',
  'trainer.docker.{image,python,mounts,gpus,shmGiB}': 'src/adapters/trainer-job/launchers/docker-launcher.ts',
  'trainer.slurm.{partition,account,qos,gpusPerNode,cpusPerTask,memory,python,extra}':
    'src/adapters/trainer-job/launchers/slurm-script.ts',
  'trainer.kubernetes.{image,python,claim,mountPath,gpusPerNode,cpus,memoryGiB,shmGiB,serviceAccount,runAsUser,runAsGroup,nodeSelector}':
    'src/adapters/trainer-job/launchers/kubernetes-manifests.ts',
  'trainer.kubernetes.namespace': 'src/adapters/trainer-job/launchers/kubernetes-launcher.ts',
  'trainer.{device,nodes,ranksPerNode,contextParallel,maxTokensPerMicro,recompute,offload,deterministic,timeoutS,stallS}':
    'src/adapters/trainer-job/job/job-spec.ts',
  'trainer.checkpoint.{everySteps,everyS}': 'src/adapters/trainer-job/job/job-spec.ts',
  'trainer.exportDtype': 'src/adapters/trainer-job/job/job-config.ts',
  'trainer.alarms.onAlarm': 'src/activities/training/record-training.ts',
  'trainer.alarms.{kl,logprobGap,importanceMean,importanceStd,effectiveSamples,chi2,capped,masked,gradNorm,entropy,entropyShare,fineTuningLoss,divergedKl}':
    'src/domain/rewards/training-alarms.ts',
  'trackers.[].kind': 'src/activities/trackers/send-metrics.ts',
  'trackers.[].{url,tokenVariable}': 'src/adapters/trackers/mlflow-requests.ts',
  'trackers.[].experiment': 'src/adapters/trackers/mlflow.ts',
  'trackers.[].directory': 'src/adapters/trackers/tensorboard.ts',
  'trackers.[].{project,entity}': 'src/adapters/trackers/wandb.ts',
}

/** Keys that must agree with what acts in their place: the file that refuses a recipe where they do not. */
const CHECKED: Record<string, string> = {
  'reinforce.loss.{level,normalizer}': 'src/adapters/recipes/reinforce-combinations.ts',
  'model.train': 'src/adapters/recipes/combinations.ts',
  [`${STAGE}.pool`]: 'src/adapters/recipes/reinforce-combinations.ts',
  'evaluate.sampling': 'src/adapters/recipes/combinations.ts',
}

/** Names for people: shown, and nothing more. */
const SHOWN: Record<string, string> = {
  'evaluate.prices.machines.[].name': 'src/contracts/recipe.types.ts',
}

const TABLES = { READERS, CHECKED, SHOWN }

test('every key of a recipe with more than one value has a reader', () => {
  const named = new Set(Object.values(TABLES).flatMap((table) => Object.keys(table).flatMap(spellOut)))
  const keys = [...leaves(recipeJsonSchema())].filter(([, nodes]) => !hasOneValue(nodes)).map(([key]) => key)
  assert.ok(keys.length > 150, `only ${keys.length} keys were found`)
  assert.deepEqual(
    keys.filter((key) => !named.has(key)),
    [],
    'the table names no reader for each of these keys',
  )
})

test('every reader in the table reads an existing key', () => {
  const known = leaves(recipeJsonSchema())
  for (const table of Object.values(TABLES)) {
    for (const [pattern, file] of Object.entries(table)) {
      const code = withoutComments(readFileSync(new URL(file, root), 'utf8'))
      for (const key of spellOut(pattern)) {
        assert.ok(known.has(key) || isOptional(key), `${key} is not a key of a recipe`)
        const name = key.split('.').findLast((part) => part !== '*' && part !== '[]') ?? ''
        assert.match(code, new RegExp(`(\\.|[{,(]\\s*)${name}\\b(?!\\()`), `${file} does not read ${key}`)
      }
    }
  }
})

test('the search finds a key without a reader', () => {
  const schema: SchemaNode = {
    properties: { a: { type: 'number' }, b: { const: 'one' }, c: { items: { properties: { d: { type: 'string' } } } } },
  }
  const keys = [...leaves(schema)].filter(([, nodes]) => !hasOneValue(nodes)).map(([key]) => key)
  assert.deepEqual(keys, ['a', 'c.[].d'])
})

/** Suites are of several kinds, so not every key of theirs is one of each; patterns name them together. */
function isOptional(key: string): boolean {
  return key.startsWith('evaluate.suites.')
}

/** `a.{b,c}` → a.b and a.c, for every brace. */
function spellOut(pattern: string): string[] {
  const brace = /\{([^{}]*)\}/.exec(pattern)
  if (brace === null) return [pattern]
  const [whole, inner = ''] = brace
  return inner.split(',').flatMap((one) => spellOut(pattern.replace(whole, one)))
}

/** Keys that hold a value of their own, with what the schema says of each place where they stand. */
function leaves(
  node: SchemaNode,
  path: string[] = [],
  found = new Map<string, SchemaNode[]>(),
): Map<string, SchemaNode[]> {
  const inner = [
    ...Object.entries(node.properties ?? {}),
    ...(typeof node.additionalProperties === 'object' ? [['*', node.additionalProperties] as const] : []),
    ...(node.items !== undefined && !Array.isArray(node.items) && hasKeys(node.items)
      ? [['[]', node.items] as const]
      : []),
  ]
  for (const [key, child] of inner) leaves(child, key === '*' && !hasKeys(child) ? path : [...path, key], found)
  for (const option of node.anyOf ?? node.oneOf ?? []) leaves(option, path, found)
  const isLeaf = inner.length === 0 && node.anyOf === undefined && node.oneOf === undefined && node.type !== 'null'
  if (isLeaf && path.length > 0) found.set(path.join('.'), [...(found.get(path.join('.')) ?? []), node])
  return found
}

function hasKeys(node: SchemaNode): boolean {
  return [node, ...(node.anyOf ?? []), ...(node.oneOf ?? [])].some(
    ({ properties, additionalProperties }) => properties !== undefined || typeof additionalProperties === 'object',
  )
}

function hasOneValue(nodes: readonly SchemaNode[]): boolean {
  return (
    new Set(nodes.map((node) => JSON.stringify(node.const ?? node.enum ?? node))).size === 1 && nodes.every(isConstant)
  )
}

function isConstant(node: SchemaNode): boolean {
  return node.const !== undefined || node.enum?.length === 1
}

function withoutComments(code: string): string {
  return code.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/(^|\s)\/\/.*/g, '')
}
