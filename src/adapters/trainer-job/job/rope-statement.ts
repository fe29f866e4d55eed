import { isDeepStrictEqual } from 'node:util'
import { LonghaulError } from '../../../contracts/errors.ts'
import type { ModelRecipe } from '../../../contracts/recipe.types.ts'

export type Rope = NonNullable<ModelRecipe['rope']>

/** What a model's config.json says of its positions. */
export interface Positions {
  /** Null: the positions that it was trained with, unscaled or scaled in another way than YaRN's. */
  rope: Rope | null
  /** Longest row, in tokens; null where it does not say. */
  window: number | null
}

type Json = Record<string, unknown>

/** What transformers takes for a config that names none. */
const DEFAULT_THETA = 10_000

/** Node parses numbers and keeps their spelling, which TypeScript's library does not know: 1e-06 and 4.0 stay what they are. */
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
 * The model's config.json with the rope stated in it, in both forms that engines read: transformers 5 knows `rope_parameters`,
 * engines before it `rope_scaling` beside `rope_theta`. The policy's directory is the one place that sampler and trainer read it
 * from. A config that states it already comes back as it is.
 * @throws LonghaulError `Config.Invalid` where the model states another rope, or has fewer positions than `originalMax`
 */
export function stateRope(configJson: string, rope: Rope): string {
  const plain = JSON.parse(configJson) as Json
  const stated = scalingOf(plain)
  const known = yarnOf(plain)
  if (stated !== null && (known === null || !isDeepStrictEqual(known, rope))) {
    throw invalid(
      `Expected the model’s config.json to state no rope, or that of model.rope (${spell(rope)}), it states ${JSON.stringify(stated)}: leave out model.rope, or take a model directory without it`,
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
 * What an engine's flag says again of a config.json that states a rope, as JSON of one line; null where there is none. Numbers
 * keep their spelling.
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
    // Betas and the attention factor of a model that states this rope itself.
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

/** Positions that the rope reaches. */
export function windowOf({ factor, originalMax }: Rope): number {
  return Math.trunc(factor * originalMax)
}

/** For a line of text, as `yarn × 4 from 32768`. */
export function spell({ type, factor, originalMax }: Rope): string {
  return `${type} × ${factor} from ${originalMax}`
}

/** Null: positions as they are. */
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
