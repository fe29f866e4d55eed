import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import type { ImageCheck } from '../../contracts/activities.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { checkImages } from './check-images.ts'

type Answer = 'here' | 'registry' | 'missing' | 'silent' | 'broken'

interface World {
  /** Names of images by suite; `made` is one that a host makes itself. */
  suites: Record<string, string[]>
  /** What is not named is missing. */
  answers?: Record<string, Answer>
  refused?: 'fail' | 'exclude'
  signal?: AbortSignal
}

interface Looked {
  found: Promise<ImageCheck>
  /** Asked of a registry, in order. */
  asked: string[]
  /** Most questions at once. */
  most: () => number
}

function look({ suites, answers = {}, refused = 'fail', signal }: World): Looked {
  const made = makeTrainingRecipe()
  const asked: string[] = []
  const open = { now: 0, most: 0 }
  const answer = (image: string): Answer => answers[image] ?? 'missing'
  const found = checkImages(
    {
      recipe: { ...made, data: { ...made.data, gate: { repeats: 1, refused, width: null } } },
      suites: async (hash) => ({
        hash,
        name: hash,
        source: { kind: 'rows', path: '', limit: null },
        taskIds: (suites[hash] ?? []).map((_, index) => String(index)),
      }),
      tasks: async ({ suite, taskId }) => {
        const image = suites[suite]?.[Number(taskId)] ?? ''
        return { image, synthetic: image === 'made' ? {} : null } as Task
      },
      hostId: 'host-1',
      finder: {
        isHere: async (image) => {
          if (answer(image) === 'broken') throw new Error('no engine')
          return answer(image) === 'here'
        },
        isInRegistry: async (image) => {
          asked.push(image)
          open.now += 1
          open.most = Math.max(open.most, open.now)
          await new Promise((resolve) => setImmediate(resolve))
          open.now -= 1
          return answer(image) === 'silent' ? null : answer(image) === 'registry'
        },
      },
    },
    Object.keys(suites),
    signal ?? new AbortController().signal,
  )
  return { found, asked, most: () => open.most }
}

const names = (count: number, word = 'image'): string[] => Array.from({ length: count }, (_, at) => `${word}-${at}`)
const all = (images: string[], answer: Answer): Record<string, Answer> =>
  Object.fromEntries(images.map((image) => [image, answer]))

async function refusal(world: World): Promise<LonghaulError> {
  const error: unknown = await look(world).found.then(
    () => null,
    (thrown: unknown) => thrown,
  )
  assert.ok(error instanceof LonghaulError, 'the run was not refused')
  assert.deepEqual([error.code, error.retryable], ['Sandbox.ImageMissing', false])
  return error
}

test('a missing image refuses the run with the count, the names and the fix', async () => {
  const { message, details } = await refusal({
    suites: { may: ['a', 'b', 'c', 'a'] },
    answers: { a: 'here', b: 'registry' },
  })
  assert.match(
    message,
    /^1 of the 3 images of may are missing: neither the engine of host host-1 nor a registry has c\. /,
  )
  assert.match(message, /longhaul images build SUITE.*docker login and docker pull/)
  assert.deepEqual(details, { missing: 1, images: 3, asked: 2, host: 'host-1' })
})

test('of many missing images three are named, with only the suites that lack some', async () => {
  const { message } = await refusal({
    suites: { may: names(5, 'x'), june: ['there'], july: ['x-1', 'y'] },
    answers: { there: 'here' },
  })
  assert.match(message, /^6 of the 6 images of may and july are missing: .* has x-0, x-1, x-2 and 3 more\. /)
})

test('a registry that does not answer, refuses or fails refuses no run', async () => {
  for (const refused of ['fail', 'exclude'] as const) {
    const silent = await look({ suites: { may: ['a', 'b'] }, answers: { a: 'silent', b: 'silent' }, refused }).found
    assert.deepEqual(silent, { images: 2, lacking: 2, asked: 2, missing: 0, unknown: 2 })
    const broken = look({ suites: { may: ['a'] }, answers: { a: 'broken' }, refused })
    assert.deepEqual(await broken.found, { images: 1, lacking: 0, asked: 0, missing: 0, unknown: 1 })
    assert.deepEqual(broken.asked, [], 'the registry is not asked for an image that the engine may have')
  }
})

test('an image that is built here needs no check, and every other image is checked once', async () => {
  const { found, asked } = look({
    suites: { may: ['made', 'a', 'a'], june: ['a', 'made'] },
    answers: { a: 'registry' },
  })
  assert.deepEqual(await found, { images: 1, lacking: 1, asked: 1, missing: 0, unknown: 0 })
  assert.deepEqual(asked, ['a'])
  assert.deepEqual((await look({ suites: { may: ['made'] } }).found).images, 0)
})

test('a large suite is sampled with fifty requests, eight at once, in equal shares per suite', async () => {
  const [may, june] = [names(200, 'may'), names(200, 'june')]
  const { found, asked, most } = look({
    suites: { may, june },
    answers: { ...all(may, 'registry'), ...all(june, 'registry') },
  })
  assert.deepEqual(await found, { images: 400, lacking: 400, asked: 50, missing: 0, unknown: 0 })
  assert.deepEqual([asked.length, new Set(asked).size, most()], [50, 50, 8])
  assert.equal(asked.filter((image) => image.startsWith('may')).length, 25)
})

test('finds images that the engine has without a request', async () => {
  const images = names(300)
  const { message } = await refusal({
    suites: { may: images },
    answers: { ...all(images, 'here'), 'image-217': 'missing' },
  })
  assert.match(message, /^1 of the 300 images of may are missing: .*image-217\. /)
})

test('exclude: refuses a run only when every image of a suite is missing', async () => {
  const some = {
    suites: { may: ['a', 'b'], june: ['c'] },
    answers: { b: 'registry', c: 'here' },
    refused: 'exclude',
  } satisfies World
  assert.deepEqual(await look(some).found, { images: 3, lacking: 2, asked: 2, missing: 1, unknown: 0 })
  const { message } = await refusal({ ...some, suites: { may: ['a', 'b'], june: ['d', 'e'] } })
  assert.match(message, /^2 of the 2 images of june are missing/)
  for (const [other, answer] of [
    ['made', 'here'],
    ['b', 'here'],
    ['b', 'registry'],
    ['b', 'silent'],
    ['b', 'broken'],
  ] as const) {
    await look({ suites: { may: ['a', other] }, answers: { [other]: answer }, refused: 'exclude' }).found
  }
})

test('exclude: fifty missing images of a large suite refuse it, unless the engine has any one of its images', async () => {
  const images = names(120)
  const { message } = await refusal({ suites: { may: images }, refused: 'exclude' })
  assert.match(
    message,
    /^50 of the 120 images of may are missing \(50 of the 120 that the engine lacks were looked for\)/,
  )
  for (const at of [0, 60, 119]) {
    const { found, asked } = look({ suites: { may: images }, answers: { [`image-${at}`]: 'here' }, refused: 'exclude' })
    await found
    assert.deepEqual(asked, [], 'one image in the engine is enough')
  }
})

test('a cancelled check ends as cancelled and proves nothing', async () => {
  const controller = new AbortController()
  const reason = new Error('cancelled')
  controller.abort(reason)
  await assert.rejects(look({ suites: { may: ['a'] }, signal: controller.signal }).found, (error) => error === reason)
})
