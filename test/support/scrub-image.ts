/** A process that scrubs an image's history, for tests with several at once: `node scrub-image.ts CACHE_DIR IMAGE DIGEST`. */
import { connectEngine } from '../../src/adapters/docker/engine/engine.ts'
import { createImageKeeper } from '../../src/adapters/docker/images/image-keeper.ts'
import { scrubbedImage } from '../../src/adapters/docker/images/scrubbed-image.ts'

const [, , cacheDir = '', image = '', digest = ''] = process.argv
const engine = await connectEngine()
const keeper = createImageKeeper({ engine, cacheDir })
const { signal } = new AbortController()
console.log(await scrubbedImage({ engine, keeper, image, digest, repoDir: '/testbed', signal }))
