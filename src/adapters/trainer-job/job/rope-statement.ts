import { isDeepStrictEqual } from 'node:util'
import { LonghaulError } from '../../../contracts/errors.ts'
import type { ModelRecipe } from '../../../contracts/recipe.types.ts'

export type Rope = NonNullable<ModelRecipe['rope']>

/** The position settings in a model's config.json. */
export interface Positions {
  /** Null if the positions are those of training, unscaled or scaled by a method other than YaRN. */
  rope: Rope | null
  /** Maximum row length in tokens; null if it is not stated. */
  window: number | null
}

type Json = Record<string, unknown>

/** The default of transformers for a config without a theta. */
const DEFAULT_THETA = 10_000

/** Node can keep the spelling of numbers (1e-06, 4.0) while parsing, which TypeScript's library types lack. */
const exact = JSON as unknown as {
  parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): Json
  rawJSON(text: string): unknown
}

/** @throws SyntaxError */
export function readPositions(configJson: string): Positions {
  const config = JSON.parse(configJson) as Json
  return { rope: yarnOf(config), window: numberOf(config['max_position_embeddings']) }
}

/**
 * Writes the rope into the model's config.json, in both forms that engines read: transformers 5 reads `rope_parameters`, older engines
 * read `rope_scaling` beside `rope_theta`. The policy's directory is the only place where sampler and trainer read it. A config that
 * already states this rope is returned unchanged.
 * @throws LonghaulError `Config.Invalid` if the model states another rope, or has fewer positions than `originalMax`
 */
export function stateRope(configJson: string, rope: Rope): string {
  const plain = JSON.parse(configJson) as Json
  const stated = scalingOf(plain)
  const known = yarnOf(plain)
  if (stated !== null && (known === null || !isDeepStrictEqual(known, rope))) {
    throw invalid(
      `Expected the model’s config.json to state no rope, or that of model.rope (${spell(rope)}), but it states ${JSON.stringify(stated)}: leave out model.rope, or take a model directory without it`,
    )
  }
  const native = numberOf(plain['max_position_embeddings'])
  if (stated === null && native !== null && rope.originalMax > native) {
    throw invalid(
      `Expected model.rope.originalMax to be at most the model’s own ${native} positions (max_position_embeddings of its config.json), got ${rope.originalMax}`,
    )
  }
  const result = withRope(exact.parse(configJson, keepSpelling), rope, stated ?? {})
  const text = `${JSON.stringify(result, null, 2)}\n`
  return isDeepStrictEqual(JSON.parse(text), plain) ? configJson : text
}

/**
 * Returns the rope of a config.json as one line of JSON for an engine's override flag; null if it states none. Numbers keep their
 * spelling.
 * @throws SyntaxError
 */
export function spellOverrides(configJson: string): string | null {
  if (yarnOf(JSON.parse(configJson) as Json) === null) return null
  const config = exact.parse(configJson, keepSpelling)
  const theta = config['rope_theta']
  const parameters = objectOf(config['rope_parameters']) ?? {
    ...objectOf(config['rope_scaling']),
    ...(theta === undefined ? {} : { rope_theta: theta }),
  }
  return JSON.stringify({
    rope_parameters: parameters,
    max_position_embeddings: config['max_position_embeddings'],
  })
}

function withRope(config: Json, rope: Rope, stated: Json): Json {
  const theta = objectOf(config['rope_parameters'])?.['rope_theta'] ?? config['rope_theta'] ?? DEFAULT_THETA
  const scaling = {
    // Betas and the attention factor of a model that already states this rope.
    ...Object.fromEntries(Object.entries(stated).filter(([name]) => name !== 'type' && name !== 'rope_theta')),
    rope_type: rope.type,
    factor: exact.rawJSON(Number.isInteger(rope.factor) ? `${rope.factor}.0` : String(rope.factor)),
    original_max_position_embeddings: rope.originalMax,
  }
  return {
    ...config,
    max_position_embeddings: windowOf(rope),
    rope_theta: theta,
    rope_scaling: scaling,
    rope_parameters: { ...scaling, rope_theta: theta },
  }
}

/** Number of positions that the rope covers. */
export function windowOf({ factor, originalMax }: Rope): number {
  return Math.trunc(factor * originalMax)
}

/** Formats the rope for messages, as `yarn × 4 from 32768`. */
export function spell({ type, factor, originalMax }: Rope): string {
  return `${type} × ${factor} from ${originalMax}`
}

/** Null if positions are not scaled. */
function scalingOf(config: Json): Json | null {
  for (const name of ['rope_parameters', 'rope_scaling']) {
    const found = objectOf(config[name])
    if (found !== null && (found['rope_type'] ?? found['type'] ?? 'default') !== 'default') return found
  }
  return null
}

function yarnOf(config: Json): Rope | null {
  const stated = scalingOf(config)
  if (stated === null || (stated['rope_type'] ?? stated['type']) !== 'yarn') return null
  const factor = numberOf(stated['factor'])
  const originalMax = numberOf(stated['original_max_position_embeddings'] ?? config['max_position_embeddings'])
  return factor === null || originalMax === null ? null : { type: 'yarn', factor, originalMax }
}

function keepSpelling(_key: string, value: unknown, { source }: { source?: string }): unknown {
  return typeof value === 'number' && source !== undefined ? exact.rawJSON(source) : value
}

function objectOf(value: unknown): Json | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : null
}

function numberOf(value: unknown): number | null {
  return typeof value === 'number' ? value : null
}

function invalid(message: string): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message })
}
