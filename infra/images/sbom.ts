/** The content of an image as a CycloneDX document: npm's packages, Debian's by dpkg, and Python's by their metadata. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sha256Hex } from '../../src/platform/hash.ts'
import { requireCommand } from '../../src/platform/run-command.ts'

export interface Component {
  'bom-ref': string
  type: 'application' | 'library' | 'container' | 'operating-system'
  name: string
  version: string
  purl: string
}

interface Dependency {
  ref: string
  dependsOn?: string[]
}

export interface Bom {
  bomFormat: 'CycloneDX'
  specVersion: '1.5'
  serialNumber: string
  version: 1
  metadata: { timestamp: string; component: Component; tools?: unknown }
  components: Component[]
  dependencies: Dependency[]
}

const NPM_MS = 5 * 60_000

/**
 * The bill of the given packages (`name@version`). npm's own `--omit dev` also omits packages that a development dependency needs, so this
 * function asks npm for all packages.
 * @throws if npm does not know one of them
 */
export async function npmBom(root: string, names: ReadonlySet<string>): Promise<Bom> {
  const args = ['sbom', '--sbom-format', 'cyclonedx', '--sbom-type', 'application']
  const { stdout } = await requireCommand({
    what: 'Listing npm packages',
    command: 'npm',
    args,
    cwd: root,
    timeoutMs: NPM_MS,
  })
  const all = JSON.parse(stdout) as Bom
  const own = all.metadata.component
  const nameOf = ({ name, version }: Component): string => `${name}@${version}`
  const components = all.components.filter((component) => names.has(nameOf(component)))
  const known = new Set(components.map(nameOf))
  const unknown = [...names].filter((name) => !known.has(name))
  if (unknown.length > 0) throw new Error(`Expected npm to know ${unknown.join(', ')}: npm ci`)
  const refs = new Set([own['bom-ref'], ...components.map((component) => component['bom-ref'])])
  const dependencies = all.dependencies
    .filter(({ ref }) => refs.has(ref))
    .map(({ ref, dependsOn = [] }) => ({ ref, dependsOn: dependsOn.filter((other) => refs.has(other)) }))
  // npm names the root after its folder.
  return { ...all, metadata: { ...all.metadata, component: { ...own, name: 'longhaul' } }, components, dependencies }
}

/** Packages in dpkg's status file. */
export function debianComponents(status: string): Component[] {
  return status
    .split(/\n\n+/)
    .map((block) =>
      Object.fromEntries([...block.matchAll(/^([A-Z][\w-]*): (.*)$/gm)].map(([, key, value]) => [key, value])),
    )
    .filter((fields) => /\binstalled$/.test(fields['Status'] ?? ''))
    .map(({ Package: name = '', Version: version = '', Architecture: arch = '' }) => ({
      'bom-ref': `deb:${name}:${arch}@${version}`,
      type: 'library',
      name,
      version,
      purl: `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=${arch}`,
    }))
}

/** Packages with installers' metadata in site-packages. */
export async function pythonComponents(sitePackages: string): Promise<Component[]> {
  const folders = (await readdir(sitePackages)).filter((name) => name.endsWith('.dist-info')).toSorted()
  return Promise.all(
    folders.map(async (folder) => {
      const text = await readFile(join(sitePackages, folder, 'METADATA'), 'utf8')
      const field = (name: string): string => new RegExp(`^${name}: (.*)$`, 'm').exec(text)?.[1]?.trim() ?? ''
      const [name, version] = [field('Name'), field('Version')]
      // Normalised like PyPI's names.
      const normal = name.toLowerCase().replaceAll(/[-_.]+/g, '-')
      return {
        'bom-ref': `pypi:${normal}@${version}`,
        type: 'library' as const,
        name,
        version,
        purl: `pkg:pypi/${normal}@${encodeURIComponent(version)}`,
      }
    }),
  )
}

/** A program that no package manager installed. */
export function programComponent({ name, version, purl }: { name: string; version: string; purl: string }): Component {
  return { 'bom-ref': `program:${name}@${version}`, type: 'application', name, version, purl }
}

interface ImageBomInput {
  /** Image name with tag. */
  image: string
  /** Digest of its manifest. */
  digest: string
  npm: Bom
  others: Component[]
}

export function imageBom({ image, digest, npm, others }: ImageBomInput): Bom {
  const at = image.lastIndexOf(':')
  const [name, version] = [image.slice(0, at), image.slice(at + 1)]
  const component: Component = {
    'bom-ref': digest,
    type: 'container',
    name,
    version,
    purl: `pkg:oci/${name.split('/').at(-1)}@${encodeURIComponent(digest)}?tag=${encodeURIComponent(version)}`,
  }
  const own = npm.metadata.component
  return {
    ...npm,
    serialNumber: `urn:uuid:${uuidOf(digest)}`,
    metadata: { ...npm.metadata, component },
    components: [own, ...npm.components, ...others],
    dependencies: [
      { ref: digest, dependsOn: [own['bom-ref'], ...others.map((part) => part['bom-ref'])] },
      ...npm.dependencies,
      ...others.map((part) => ({ ref: part['bom-ref'] })),
    ],
  }
}

/** The document's serial number: the same image gives the same UUID. */
function uuidOf(text: string): string {
  const hex = sha256Hex(text)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}
