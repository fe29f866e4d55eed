/** A process that ensures an image, for tests with several at once: `node ensure-image.ts CACHE_DIR IMAGE`. */
import { connectEngine } from '../../src/adapters/docker/engine/engine.ts'
import { createImageKeeper } from '../../src/adapters/docker/images/image-keeper.ts'
import { pullImage } from '../../src/adapters/docker/images/images.ts'

const [, , cacheDir = '', image = ''] = process.argv
const engine = await connectEngine()
const { signal } = new AbortController()
await createImageKeeper({ engine, cacheDir }).ensure({
  image,
  signal,
  make: (stopped) => pullImage({ engine, image, log: (line) => console.log(line), signal: stopped }),
})
