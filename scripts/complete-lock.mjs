// Adds to package-lock.json the optional platform packages that npm left out, so that `npm ci` accepts the lock everywhere.
//
// npm drops an optional package from the lock when the registry at hand does not serve it (mirrors often hold one platform
// only), and then `npm ci` refuses the very lock it wrote. An entry with its platform is enough: npm skips foreign ones
// without fetching them. Added entries carry no integrity; run `npm install` against a full registry to gain it.
//
//   node scripts/complete-lock.mjs           repairs the lock
//   node scripts/complete-lock.mjs --check   exit 1 when there is something to repair
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const SYSTEMS = ['aix', 'android', 'darwin', 'freebsd', 'linux', 'netbsd', 'openbsd', 'openharmony', 'sunos', 'win32']
const PROCESSORS = ['arm', 'arm64', 'ia32', 'loong64', 'mips64el', 'ppc64', 'riscv64', 's390x', 'wasm32', 'x64']

const path = join(dirname(dirname(fileURLToPath(import.meta.url))), 'package-lock.json')
const lock = JSON.parse(readFileSync(path, 'utf8'))
const missing = findMissing(lock.packages)

if (missing.length === 0) process.exit(0)
if (process.argv.includes('--check')) {
  console.error(`package-lock.json lacks ${missing.length} optional packages; run node scripts/complete-lock.mjs`)
  process.exit(1)
}
for (const { name, version, parent } of missing) {
  const top = `node_modules/${name}`
  const place = lock.packages[top] === undefined ? top : `${parent}/${top}`
  lock.packages[place] = { version, ...platformOf(name), optional: true }
}
const [root, ...others] = Object.entries(lock.packages)
others.sort(([a], [b]) => a.localeCompare(b, 'en'))
lock.packages = Object.fromEntries([root, ...others])
writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`)
console.error(`added ${missing.length} optional packages to package-lock.json`)

function findMissing(packages) {
  return Object.entries(packages).flatMap(([parent, { optionalDependencies = {} }]) =>
    Object.entries(optionalDependencies)
      .filter(([name]) => !isFound(packages, parent, name))
      .map(([name, version]) => ({ name, version, parent })),
  )
}

/** Node's own search: beside the parent, then beside each package above it. */
function isFound(packages, parent, name) {
  for (let folder = parent; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('/node_modules/')))) {
    if (packages[`${folder === '' ? '' : `${folder}/`}node_modules/${name}`] !== undefined) return true
    if (folder === '' || !folder.includes('/node_modules/')) break
  }
  return packages[`node_modules/${name}`] !== undefined
}

/** Platform packages say what they are for in their names: `@x/cli-linux-arm64-musl`. */
function platformOf(name) {
  const words = name.split(/[/-]/)
  const os = words.filter((word) => SYSTEMS.includes(word))
  const cpu = words.filter((word) => PROCESSORS.includes(word))
  if (os.length === 0 && cpu.length === 0) throw new Error(`Cannot tell the platform of ${name}`)
  const libc = words.some((word) => word.startsWith('musl')) ? ['musl'] : undefined
  return {
    ...(cpu.length === 0 ? {} : { cpu }),
    ...(libc === undefined ? {} : { libc }),
    ...(os.length === 0 ? {} : { os }),
  }
}
