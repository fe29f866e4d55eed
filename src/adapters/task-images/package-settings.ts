/**
 * The user's settings for package registries: pip's variables and files, proxies, certificates. A build receives them in the
 * environment of its processes and in memory, never in a file of the image. No log or record contains their values.
 */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

export interface PackageSettings {
  /** Set for every process of a build. */
  environment: Record<string, string>
  /** Written into memory under `SETTINGS_DIR`. */
  files: Map<string, Uint8Array>
  /** Local directories of wheels, by the path at which the build sees them. */
  directories: Map<string, string>
  /** Passwords and tokens, which no image may contain. */
  secrets: string[]
  /** Removes every value that identifies a registry or a user from a text. */
  redact(text: string): string
}

/** An in-memory file system that exists during a build. */
export const SETTINGS_DIR = '/run/longhaul-build'

/** Those of pip's options that say where packages come from. The others would change what is built. */
const PIP_OPTIONS = [
  'index-url',
  'extra-index-url',
  'trusted-host',
  'find-links',
  'no-index',
  'proxy',
  'cert',
  'client-cert',
  'timeout',
  'default-timeout',
  'retries',
]
const PIP_FILES = new Set(['cert', 'client-cert'])
const PROXIES = ['http_proxy', 'https_proxy', 'ftp_proxy', 'all_proxy', 'no_proxy']
const CERTIFICATES = ['SSL_CERT_FILE', 'REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE', 'GIT_SSL_CAINFO']

export function readPackageSettings(env: NodeJS.ProcessEnv = process.env): PackageSettings {
  const environment: Record<string, string> = {}
  const files = new Map<string, Uint8Array>()
  const directories = new Map<string, string>()
  const values: string[] = []

  const lay = (path: string): string => {
    const body = readFileSync(path)
    const known = [...files].find(([, other]) => body.equals(other))?.[0]
    const name = known ?? `file-${files.size}`
    files.set(name, body)
    return `${SETTINGS_DIR}/${name}`
  }
  const show = (directory: string): string => {
    const name = `/mnt/longhaul-wheels-${directories.size}`
    directories.set(name, directory)
    return name
  }

  for (const [option, value] of pipOptions(env)) {
    const name = `PIP_${option.toUpperCase().replaceAll('-', '_')}`
    if (PIP_FILES.has(option)) {
      if (isFile(value)) environment[name] = lay(value)
      continue
    }
    const words = value.split(/\s+/).filter((word) => word !== '')
    environment[name] = option === 'find-links' ? words.map((word) => wheels(word, show)).join(' ') : words.join(' ')
    if (['index-url', 'extra-index-url', 'find-links', 'proxy', 'trusted-host'].includes(option)) values.push(...words)
  }
  for (const name of PROXIES) {
    for (const spelled of [name, name.toUpperCase()]) {
      const value = env[spelled]
      if (value === undefined || value === '') continue
      environment[spelled] = value
      if (name !== 'no_proxy') values.push(value)
    }
  }
  for (const name of CERTIFICATES) {
    const path = env[name]
    if (path !== undefined && isFile(path)) environment[name] = lay(path)
  }
  const netrc = env['NETRC'] ?? join(env['HOME'] ?? homedir(), '.netrc')
  const credentials: string[] = []
  if (isFile(netrc)) {
    environment['NETRC'] = lay(netrc)
    credentials.push(...[...readFileSync(netrc, 'utf8').matchAll(/\bpassword\s+(\S+)/g)].map(([, word]) => word ?? ''))
  }
  const addresses = values.filter((value) => value.includes('://'))
  const secrets = [...credentials, ...addresses.flatMap(passwordsOf)].filter((secret) => secret.length >= 4)
  return { environment, files, directories, secrets, redact: redactor([...addresses, ...secrets]) }
}

/** Reads the files first, in pip's order; variables take precedence. */
function pipOptions(env: NodeJS.ProcessEnv): Map<string, string> {
  const options = new Map<string, string>()
  const home = env['HOME'] ?? homedir()
  const own = env['PIP_CONFIG_FILE']
  const places = [
    '/etc/xdg/pip/pip.conf',
    '/etc/pip.conf',
    join(home, '.pip/pip.conf'),
    join(env['XDG_CONFIG_HOME'] ?? join(home, '.config'), 'pip/pip.conf'),
    own ?? '',
  ]
  // In pip, this name disables its files.
  for (const place of own === '/dev/null' ? [] : places) {
    for (const [option, value] of pipFile(place)) options.set(option, value)
  }
  for (const option of PIP_OPTIONS) {
    const value = env[`PIP_${option.toUpperCase().replaceAll('-', '_')}`]
    if (value !== undefined && value !== '') options.set(option, value)
  }
  return options
}

/** Reads the options of `[global]` and `[install]`. A value may continue on indented lines. */
export function pipFile(path: string): Map<string, string> {
  const options = new Map<string, string>()
  if (!isFile(path)) return options
  let section = ''
  let last = ''
  const sections = new Map<string, Map<string, string>>()
  for (const line of readFileSync(path, 'utf8').split(/\r?\n/)) {
    if (/^\s*[#;]/.test(line) || line.trim() === '') continue
    const [, name] = /^\[([^\]]+)\]/.exec(line) ?? []
    if (name !== undefined) {
      section = name
      last = ''
      continue
    }
    const known = sections.get(section) ?? new Map<string, string>()
    sections.set(section, known)
    const [, key, value] = /^([A-Za-z][\w-]*)\s*[=:]\s*(.*)$/.exec(line) ?? []
    if (key !== undefined && value !== undefined) {
      last = key.toLowerCase().replaceAll('_', '-')
      known.set(last, value.trim())
    } else if (/^\s/.test(line) && last !== '') known.set(last, `${known.get(last) ?? ''} ${line.trim()}`.trim())
  }
  for (const name of ['global', 'install']) {
    for (const [option, value] of sections.get(name) ?? []) if (PIP_OPTIONS.includes(option)) options.set(option, value)
  }
  return options
}

/** A local directory is mounted into the build; an address is kept. */
function wheels(word: string, show: (directory: string) => string): string {
  const path = word.replace(/^file:\/\//, '')
  return path.startsWith('/') && existsSync(path) && statSync(path).isDirectory() ? show(path) : word
}

function passwordsOf(address: string): string[] {
  const [, user = '', password = ''] = /:\/\/([^/@:\s]*)(?::([^/@\s]*))?@/.exec(address) ?? []
  // The token may be in the user name.
  const words = password === '' ? [user] : [password]
  return words.flatMap((word) => (word === '' ? [] : [word, decoded(word)]))
}

function decoded(word: string): string {
  try {
    return decodeURIComponent(word)
  } catch {
    return word
  }
}

function redactor(values: string[]): (text: string) => string {
  const hosts = values.flatMap((value) => /:\/\/(?:[^/@\s]*@)?([^/\s]+)/.exec(value)?.[1] ?? [])
  const all = [...new Set([...values, ...hosts])]
    .filter((value) => value !== '')
    .toSorted((a, b) => b.length - a.length)
  return (text) => {
    let clean = text
    for (const value of all) clean = clean.replaceAll(value, '***')
    return clean.replaceAll(/:\/\/[^/@\s]+@/g, '://***@')
  }
}

function isFile(path: string): boolean {
  return path !== '' && existsSync(path) && statSync(path).isFile()
}
