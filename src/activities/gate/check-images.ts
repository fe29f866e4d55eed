import type { ImageCheck } from '../../contracts/activities.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { orderByHash } from '../../domain/hash-order.ts'
import { sha256Hex } from '../../platform/hash.ts'
import type { SuiteReader, TaskReader } from '../runtime/stored-records.ts'

/** This check is a sample: registries limit requests, some to a hundred in six hours. */
const MOST_ASKED = 50
const CONCURRENCY = 8
/** Limit on the whole check. A slower registry counts as one that gave no answer. */
const LOOKING_MS = 30_000
/** The part of the limit for tasks and engine, so that a large suite leaves time for the registry. */
const HERE_MS = 15_000
const NAMED = 3

/** Where images of tasks are searched. */
export interface ImageFinder {
  isHere(image: string, signal: AbortSignal): Promise<boolean>
  /** Null if the registry gives no clear answer: rate limit, no credentials, no network. */
  isInRegistry(image: string, signal: AbortSignal): Promise<boolean | null>
}

export interface CheckImagesDependencies {
  recipe: Recipe
  suites: SuiteReader
  tasks: TaskReader
  finder: ImageFinder
  hostId: string
}

/** The distinct images of a suite, in a shuffled order, so that the first ones are a fair sample. */
interface SuiteImages {
  name: string
  images: string[]
  /** Whether some tasks need no image from a registry, or were not read in time. */
  hasOthers: boolean
}

/** `unasked`: the engine lacks the image and no registry was asked. `unknown`: there was no answer. */
type Place = 'here' | 'registry' | 'missing' | 'unasked' | 'unknown'

/**
 * Searches for the images of suites before any suite is gated: in this host's engine, then in their registries. Images that a host
 * makes from a seed always exist.
 * @throws LonghaulError `Sandbox.ImageMissing` if the gate would have to refuse the run: with `refused: fail` for one missing image,
 * with `exclude` if a suite has no other image
 */
export async function checkImages(
  deps: CheckImagesDependencies,
  suites: readonly string[],
  signal: AbortSignal,
): Promise<ImageCheck> {
  const all = AbortSignal.any([signal, AbortSignal.timeout(LOOKING_MS)])
  const first = AbortSignal.any([signal, AbortSignal.timeout(HERE_MS)])
  const needed: SuiteImages[] = []
  for (const suite of suites) needed.push(await imagesOf(deps, suite, first))
  const places = await lookHere(deps.finder, needed, first)
  const { asked, lacking } = await lookInRegistries(deps, needed, places, all)
  signal.throwIfAborted()
  const counted = { images: places.size, lacking, asked, missing: 0, unknown: 0 }
  for (const place of places.values()) {
    if (place === 'missing' || place === 'unknown') counted[place] += 1
  }
  const refused = needed.filter((suite) => isRefused(deps.recipe, suite, places))
  if (refused.length > 0) throw missingImages(deps.hostId, refused, places, counted)
  return counted
}

async function imagesOf({ suites, tasks }: CheckImagesDependencies, suite: string, signal: AbortSignal) {
  const { name, taskIds } = await suites(suite)
  const images = new Set<string>()
  let hasOthers = false
  await forEachConcurrently(inOrder(taskIds), async (taskId) => {
    if (signal.aborted) {
      hasOthers = true
      return
    }
    const { image, synthetic } = await tasks({ suite, taskId })
    if (synthetic === null) images.add(image)
    else hasOthers = true
  })
  return { name, images: inOrder([...images]), hasOthers } satisfies SuiteImages
}

async function lookHere(
  finder: ImageFinder,
  needed: readonly SuiteImages[],
  signal: AbortSignal,
): Promise<Map<string, Place>> {
  const places = new Map<string, Place>(needed.flatMap(({ images }) => images.map((image) => [image, 'unknown'])))
  await forEachConcurrently([...places.keys()], async (image) => {
    const isHere = await answerOf(signal, () => finder.isHere(image, signal))
    // If no engine answered, it may have the image.
    if (isHere !== null) places.set(image, isHere ? 'here' : 'unasked')
  })
  return places
}

async function lookInRegistries(
  { finder, recipe }: CheckImagesDependencies,
  needed: readonly SuiteImages[],
  places: Map<string, Place>,
  signal: AbortSignal,
): Promise<{ asked: number; lacking: number }> {
  const lackingOf = needed.map(({ images }) => images.filter((image) => places.get(image) === 'unasked'))
  const mayExclude = recipe.data.gate.refused === 'exclude'
  const asked = new Set<string>()
  const ask = async ([image, suite]: readonly [string, SuiteImages]): Promise<void> => {
    if (asked.has(image) || asked.size >= MOST_ASKED) return
    // Such a suite only needs one existing image.
    if (mayExclude && isSomewhere(suite, places)) return
    asked.add(image)
    const isThere = await answerOf(signal, () => finder.isInRegistry(image, signal))
    places.set(image, isThere === null ? 'unknown' : isThere ? 'registry' : 'missing')
  }
  const pairs = needed.map((suite, index) => (lackingOf[index] ?? []).map((image) => [image, suite] as const))
  await forEachConcurrently(mayExclude ? pairs.flat() : inTurn(pairs), ask)
  return { asked: asked.size, lacking: new Set(lackingOf.flat()).size }
}

function isSomewhere({ images, hasOthers }: SuiteImages, places: ReadonlyMap<string, Place>): boolean {
  return hasOthers || images.some((image) => ['here', 'registry'].includes(places.get(image) ?? ''))
}

/** If fifty images of a larger suite are missing and the engine has none, the whole suite counts as missing. */
function isRefused({ data }: Recipe, suite: SuiteImages, places: ReadonlyMap<string, Place>): boolean {
  const missing = missingOf(suite, places).length
  if (data.gate.refused === 'fail' || missing === 0) return missing > 0
  const mayBeHere = suite.images.some((image) => places.get(image) === 'unknown')
  return !mayBeHere && !isSomewhere(suite, places) && missing >= Math.min(suite.images.length, MOST_ASKED)
}

function missingOf({ images }: SuiteImages, places: ReadonlyMap<string, Place>): string[] {
  return images.filter((image) => places.get(image) === 'missing')
}

function missingImages(
  host: string,
  refused: readonly SuiteImages[],
  places: ReadonlyMap<string, Place>,
  { lacking, asked }: ImageCheck,
): LonghaulError {
  const images = new Set(refused.flatMap((suite) => suite.images)).size
  const missing = [...new Set(refused.flatMap((suite) => missingOf(suite, places)))].toSorted()
  const more = missing.length > NAMED ? ` and ${missing.length - NAMED} more` : ''
  const looked = asked < lacking ? ` (${asked} of the ${lacking} that the engine lacks were looked for)` : ''
  return new LonghaulError({
    code: 'Sandbox.ImageMissing',
    message: `${missing.length} of the ${images} images of ${refused.map(({ name }) => name).join(' and ')} are missing${looked}: neither the engine of host ${host} nor a registry has ${missing.slice(0, NAMED).join(', ')}${more}. longhaul images build SUITE makes images from the repositories’ history; an image of a private registry must be pulled on each sandbox host with docker login and docker pull`,
    details: { missing: missing.length, images, asked, host },
  })
}

/** Returns null if there was no answer in time, for whatever reason, from which nothing is concluded. */
async function answerOf(signal: AbortSignal, look: () => Promise<boolean | null>): Promise<boolean | null> {
  if (signal.aborted) return null
  const { promise, resolve } = Promise.withResolvers<null>()
  const giveUp = (): void => resolve(null)
  signal.addEventListener('abort', giveUp, { once: true })
  try {
    return await Promise.race([look(), promise])
  } catch {
    return null
  } finally {
    signal.removeEventListener('abort', giveUp)
  }
}

async function forEachConcurrently<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const rest = items.values()
  await Promise.all(
    Array.from({ length: CONCURRENCY }, async () => {
      for (const item of rest) await work(item)
    }),
  )
}

/** The first of each list, then the second of each, and so on. */
function inTurn<T>(lists: readonly (readonly T[])[]): T[] {
  const longest = Math.max(0, ...lists.map(({ length }) => length))
  return Array.from({ length: longest }, (_, index) => lists.flatMap((list) => list.slice(index, index + 1))).flat()
}

function inOrder(texts: readonly string[]): string[] {
  return orderByHash({ items: texts, material: (text) => text, hash: sha256Hex })
}
