import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { delimiter, dirname, isAbsolute, join } from 'node:path'
import { promisify } from 'node:util'
import { parse } from 'yaml'
import { z } from 'zod'
import { oneLine } from '../../domain/hostile-text.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { requireHeaderValue } from '../../platform/quote-address.ts'

/** The credentials that authenticate a request. */
export interface ClusterCredentials {
  cert?: string
  key?: string
  token?: string
}

/** How this process reaches a cluster. The settings are those that `kubectl` would use here and are read once; credentials are
 *  renewed before they expire. */
export interface ClusterAccess {
  /** Has no trailing slash. */
  server: string
  /** Namespace of the context; null if it names none. */
  namespace: string | null
  ca: string | undefined
  skipsVerification: boolean
  serverName: string | undefined
  credentials(): Promise<ClusterCredentials>
}

/** Where a pod finds its service account. */
const ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount'
/** A kubelet renews a service account's token file at least an hour before the token expires. */
const TOKEN_FILE_MS = 60_000
/** Credential programs of clouds query a server. */
const PROGRAM_MS = 30_000

const text = z.string().optional()

const CLUSTER = z.object({
  server: z.string(),
  'certificate-authority': text,
  'certificate-authority-data': text,
  'insecure-skip-tls-verify': z.boolean().optional(),
  'tls-server-name': text,
  'proxy-url': text,
})

const PROGRAM = z.object({
  apiVersion: z.string(),
  command: z.string(),
  args: z.array(z.string()).nullish(),
  env: z.array(z.object({ name: z.string(), value: z.string() })).nullish(),
  installHint: text,
})

const USER = z.object({
  'client-certificate': text,
  'client-certificate-data': text,
  'client-key': text,
  'client-key-data': text,
  token: text,
  tokenFile: text,
  exec: PROGRAM.optional(),
  username: text,
  'auth-provider': z.unknown().optional(),
})

const CONFIG = z.object({
  'current-context': text,
  clusters: z.array(z.object({ name: z.string(), cluster: CLUSTER })).nullish(),
  users: z.array(z.object({ name: z.string(), user: USER.nullish() })).nullish(),
  contexts: z
    .array(
      z.object({ name: z.string(), context: z.object({ cluster: z.string(), user: z.string(), namespace: text }) }),
    )
    .nullish(),
})

type ClusterEntry = z.infer<typeof CLUSTER>
type UserEntry = z.infer<typeof USER>

/**
 * Reads the files that KUBECONFIG names, otherwise `~/.kube/config`, otherwise the service account of the pod in which this process
 * runs.
 * @throws LonghaulError `Config.Invalid`
 */
export async function readClusterAccess(env: NodeJS.ProcessEnv = process.env): Promise<ClusterAccess> {
  const named = (env['KUBECONFIG'] ?? '').split(delimiter).filter((path) => path !== '')
  const usual = join(env['HOME'] ?? homedir(), '.kube/config')
  if (named.length === 0 && !existsSync(usual)) return accountOfPod(env)
  return fromFiles(named.length === 0 ? [usual] : named)
}

async function fromFiles(paths: readonly string[]): Promise<ClusterAccess> {
  const configs = await Promise.all(paths.map(readConfig))
  const wanted = configs.map((config) => config['current-context'] ?? '').find((name) => name !== '')
  if (wanted === undefined) throw invalid(`${paths.join(', ')}: current-context is not set`)
  const contexts = configs.flatMap((config) => config.contexts ?? [])
  const context = contexts.find(({ name }) => name === wanted)?.context
  if (context === undefined) {
    const known = contexts.map(({ name }) => name).join(', ') || 'none'
    throw invalid(`${paths.join(', ')}: there is no context ${wanted}, which current-context names; there is ${known}`)
  }
  const cluster = configs.flatMap(({ clusters }) => clusters ?? []).find(({ name }) => name === context.cluster)
  if (cluster === undefined) throw invalid(`${paths.join(', ')}: there is no cluster ${context.cluster}`)
  const user = configs.flatMap(({ users }) => users ?? []).find(({ name }) => name === context.user)
  // Without a user, requests would carry no credentials, and the server's refusal would look like missing permissions.
  if (user === undefined && context.user !== '') {
    throw invalid(`${paths.join(', ')}: there is no user ${context.user}, which the context ${wanted} names`)
  }
  const trust = await trustOf(cluster.cluster)
  return { ...trust, namespace: context.namespace ?? null, credentials: credentialsOf(user?.user ?? {}) }
}

/** Resolves paths in a kubeconfig relative to the file. */
async function readConfig(path: string): Promise<z.infer<typeof CONFIG>> {
  const content = await readFile(path, 'utf8').catch((error: Error) => {
    throw invalid(`${path} cannot be read (${error.message})`)
  })
  let value: unknown
  try {
    value = parse(content, { logLevel: 'error' })
  } catch (error) {
    // The parser shows the line below its reason, in which the token may stand.
    const reason = (error as Error).message.split('\n')[0]?.replace(/:$/, '')
    throw invalid(`${path} is not YAML (${reason})`)
  }
  const config = CONFIG.safeParse(value)
  if (!config.success)
    throw invalid(
      `${path} is no kubeconfig: ${z
        .prettifyError(config.error)
        .replace(/\s*✖\s*/g, ' ')
        .trim()
        .slice(0, 300)}`,
    )
  const place = (file: string | undefined): string | undefined =>
    file === undefined || file === '' || isAbsolute(file) ? file : join(dirname(path), file)
  for (const { cluster } of config.data.clusters ?? [])
    cluster['certificate-authority'] = place(cluster['certificate-authority'])
  for (const { user } of config.data.users ?? []) {
    if (user === null || user === undefined) continue
    for (const name of ['client-certificate', 'client-key', 'tokenFile'] as const) user[name] = place(user[name])
    const command = user.exec?.command
    if (user.exec !== undefined && command?.includes('/')) user.exec.command = place(command) ?? command
  }
  return config.data
}

async function trustOf(cluster: ClusterEntry): Promise<Omit<ClusterAccess, 'namespace' | 'credentials'>> {
  const { server } = cluster
  if (!URL.canParse(server)) throw invalid(`${JSON.stringify(server)} is not the address of an API server`)
  if (cluster['proxy-url'] !== undefined) throw invalid(`the cluster ${server} has a proxy-url, which is not supported`)
  return {
    server: server.replace(/\/$/, ''),
    ca: await dataOrFile(cluster['certificate-authority-data'], cluster['certificate-authority']),
    skipsVerification: cluster['insecure-skip-tls-verify'] ?? false,
    serverName: cluster['tls-server-name'],
  }
}

function credentialsOf(user: UserEntry): () => Promise<ClusterCredentials> {
  if (user['auth-provider'] !== undefined || user.username !== undefined) {
    throw invalid(
      'the user of the context has an auth-provider or a password: certificates, tokens and exec are supported',
    )
  }
  if (user.exec !== undefined) return askedOf(user.exec)
  const token = user.tokenFile === undefined ? async () => user.token : rereadToken(user.tokenFile)
  return async () => {
    const [cert, key, said] = await Promise.all([
      dataOrFile(user['client-certificate-data'], user['client-certificate']),
      dataOrFile(user['client-key-data'], user['client-key']),
      token(),
    ])
    return {
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key }),
      ...(said === undefined ? {} : { token: requireHeaderValue('the token of the kubeconfig’s user', said) }),
    }
  }
}

async function dataOrFile(data: string | undefined, path: string | undefined): Promise<string | undefined> {
  if (data !== undefined && data !== '') return Buffer.from(data, 'base64').toString()
  if (path === undefined || path === '') return undefined
  return readFile(path, 'utf8').catch((error: Error) => {
    throw invalid(`${path} cannot be read (${error.message})`)
  })
}

function rereadToken(path: string): () => Promise<string> {
  let known: { token: string; atMs: number } | null = null
  return async () => {
    if (known === null || performance.now() - known.atMs > TOKEN_FILE_MS) {
      known = { token: ((await dataOrFile(undefined, path)) ?? '').trim(), atMs: performance.now() }
    }
    return known.token
  }
}

const ANSWER = z.object({
  status: z.object({
    token: text,
    clientCertificateData: text,
    clientKeyData: text,
    expirationTimestamp: text,
  }),
})

/** Returns credentials from a cloud's program, called as `kubectl` does. */
function askedOf({
  apiVersion,
  command,
  args,
  env,
  installHint,
}: z.infer<typeof PROGRAM>): () => Promise<ClusterCredentials> {
  let known: { credentials: ClusterCredentials; untilMs: number } | null = null
  return async () => {
    if (known !== null && Date.now() < known.untilMs) return known.credentials
    const asked = { apiVersion, kind: 'ExecCredential', spec: { interactive: false } }
    const further = Object.fromEntries((env ?? []).map(({ name, value }) => [name, value]))
    const { stdout } = await promisify(execFile)(command, args ?? [], {
      timeout: PROGRAM_MS,
      env: { ...process.env, ...further, KUBERNETES_EXEC_INFO: JSON.stringify(asked) },
    }).catch((error: NodeJS.ErrnoException) => {
      const program = `${command}, which the kubeconfig names for credentials,`
      if (error.code === 'ENOENT') {
        const hint = installHint === undefined ? '' : `; the kubeconfig says: ${installHint.trim().slice(0, 300)}`
        throw invalid(`${program} is not installed on this machine${hint}`)
      }
      throw invalid(`${program} failed (${oneLine(error.message, 300)})`)
    })
    const answer = ANSWER.safeParse(jsonOf(stdout))
    if (!answer.success) throw invalid(`${command}, which the kubeconfig names for credentials, printed no credentials`)
    const { token, clientCertificateData: cert, clientKeyData: key, expirationTimestamp } = answer.data.status
    const ends = expirationTimestamp === undefined ? Number.POSITIVE_INFINITY : Date.parse(expirationTimestamp)
    const credentials = {
      ...(token === undefined ? {} : { token: requireHeaderValue(`the token that ${command} printed`, token) }),
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key }),
    }
    known = { credentials, untilMs: ends - 60_000 }
    return credentials
  }
}

function jsonOf(content: string): unknown {
  try {
    return JSON.parse(content)
  } catch {
    return null
  }
}

async function accountOfPod(env: NodeJS.ProcessEnv): Promise<ClusterAccess> {
  const [host, port] = [env['KUBERNETES_SERVICE_HOST'], env['KUBERNETES_SERVICE_PORT']]
  if (host === undefined || port === undefined || !existsSync(`${ACCOUNT}/token`)) {
    throw invalid(
      'set KUBECONFIG to a file that names the cluster: there is no ~/.kube/config, and this process does not run in a pod',
    )
  }
  const token = rereadToken(`${ACCOUNT}/token`)
  return {
    server: `https://${host.includes(':') ? `[${host}]` : host}:${port}`,
    namespace: (await readFile(`${ACCOUNT}/namespace`, 'utf8')).trim(),
    ca: await readFile(`${ACCOUNT}/ca.crt`, 'utf8'),
    skipsVerification: false,
    serverName: undefined,
    credentials: async () => ({ token: await token() }),
  }
}

function invalid(why: string): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message: `Expected access to the Kubernetes cluster: ${why}` })
}
