import { X509Certificate } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { createSecureContext } from 'node:tls'
import { type ClientConnectConfig, loadClientConfigProfile, toClientOptions } from '@temporalio/envconfig'
import { LonghaulError } from '../contracts/errors.ts'
import { quoteAddress, requireHeaderValue } from './quote-address.ts'

/** How a process reaches Temporal: the one statement that every role, the client, schedules and the set-up read. */
export interface TemporalSettings {
  /** `host:port` */
  address: string
  namespace: string
  /** TLS, API key and headers, for `Connection` and `NativeConnection` alike; empty for a server without them. */
  credentials: TemporalCredentials
}

type ConnectionOptions = ClientConnectConfig['connectionOptions']

export interface TemporalCredentials {
  tls?: NonNullable<ConnectionOptions['tls']>
  apiKey?: string
  metadata?: Record<string, string>
}

const LOCAL_ADDRESS = '127.0.0.1:7233'

/** By these a person names a server; a file of profiles that only lies at its default place does not replace the local stack. */
const NAMES_A_SERVER = ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE'] as const

/**
 * Reads the variables and profile files of Temporal's own tools (`TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, `TEMPORAL_API_KEY`,
 * `TEMPORAL_TLS…`, `TEMPORAL_GRPC_META_…`, `TEMPORAL_PROFILE`, `TEMPORAL_CONFIG_FILE`); variables win over the profile.
 * `LONGHAUL_TEMPORAL_ADDRESS` and `LONGHAUL_NAMESPACE`, which the local stack gives to its processes, win over both.
 * Credentials go to no other address than the one they were stated for.
 * @throws LonghaulError `Config.Invalid`
 */
export function readTemporalSettings(
  env: NodeJS.ProcessEnv = process.env,
  override: { address?: string; namespace?: string } = {},
): TemporalSettings {
  const stated = readProfile(env)
  const wanted = override.address ?? said(env, 'LONGHAUL_TEMPORAL_ADDRESS')
  const { address = LOCAL_ADDRESS, tls, apiKey, metadata } = stated.connectionOptions
  const isStated = wanted === undefined || wanted === address
  requireAddress(wanted ?? address)
  const namespace =
    override.namespace ??
    said(env, 'LONGHAUL_NAMESPACE') ??
    (isStated ? stated.namespace : said(env, 'TEMPORAL_NAMESPACE')) ??
    'default'
  // It becomes a header of each call, and the transport would be silent about one that it does not send.
  if (!/^[\x21-\x7e]{1,255}$/.test(namespace)) {
    throw invalid(
      `Expected the namespace (LONGHAUL_NAMESPACE, TEMPORAL_NAMESPACE or the profile) to be up to 255 printable characters of ASCII without spaces, got ${JSON.stringify(namespace.slice(0, 80))}`,
    )
  }
  return {
    address: wanted ?? address,
    namespace,
    credentials: isStated
      ? {
          ...(tls === undefined || tls === null ? {} : { tls }),
          ...(typeof apiKey === 'string' ? { apiKey } : {}),
          ...(metadata === undefined ? {} : { metadata: metadata as Record<string, string> }),
        }
      : {},
  }
}

/** Whether a person named a server, so that the stack starts none of its own. */
export function namesTemporalServer(env: NodeJS.ProcessEnv = process.env): boolean {
  return NAMES_A_SERVER.some((name) => said(env, name) !== undefined)
}

/** The named server, also where the process belongs to a stack with a server of its own; null where none is named. */
export function namedTemporalServer(env: NodeJS.ProcessEnv = process.env): TemporalSettings | null {
  if (!namesTemporalServer(env)) return null
  const { LONGHAUL_TEMPORAL_ADDRESS: _own, ...others } = env
  return readTemporalSettings(others)
}

function readProfile(env: NodeJS.ProcessEnv): ClientConnectConfig {
  const variables = Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== ''),
  )
  refuseWhatWouldBeIgnored(variables)
  try {
    const profile = loadClientConfigProfile({ overrideEnvVars: variables, configFileStrict: true })
    requireTypes(profile, profilesPath(variables))
    const { clientCert, clientKey } = profile.tls ?? {}
    if ((clientCert === undefined) !== (clientKey === undefined)) {
      throw new Error(
        'a client certificate and its key belong together, and one of them is missing (TEMPORAL_TLS_CLIENT_CERT_PATH, TEMPORAL_TLS_CLIENT_KEY_PATH)',
      )
    }
    requireCertificates(profile.tls ?? {})
    return toClientOptions(profile)
  } catch (cause) {
    // Without the cause: that of a file shows the line, in which the key may stand.
    throw invalid(`The settings of the connection to Temporal cannot be used: ${describe(cause, variables)}`)
  }
}

/** The reader takes any value of TOML: it would pass over a key that is a number, and read a file from an open descriptor. */
function requireTypes({ address, namespace, apiKey, tls, grpcMeta }: Profile, file: string): void {
  const paths = [tls?.clientCert, tls?.clientKey, tls?.serverCACert].map((source) =>
    source === undefined || !('path' in source) ? undefined : source.path,
  )
  const texts: unknown[] = [address, namespace, apiKey, tls?.serverName, ...paths, ...Object.values(grpcMeta ?? {})]
  if (texts.some((value) => value !== undefined && typeof value !== 'string')) {
    throw new Error(`the profile has a value that is no text, and belongs in quotation marks (${file})`)
  }
  if (!['undefined', 'boolean'].includes(typeof tls?.disabled)) {
    throw new Error(`tls.disabled is neither true nor false (${file})`)
  }
  if (apiKey !== undefined) requireHeaderValue('TEMPORAL_API_KEY, or api_key of the profile,', apiKey)
  // The transport's error for a line break would quote it.
  const wrong = Object.entries(grpcMeta ?? {}).find(([, value]) => !/^[\x20-\x7e]*$/.test(value))?.[0]
  if (wrong !== undefined) throw new Error(`Expected the metadata ${wrong} to be printable characters of ASCII`)
}

/** The transport and OpenSSL would say only that they found no start of a line, or nothing. */
function requireCertificates({ clientCert, clientKey, serverCACert }: NonNullable<Profile['tls']>): void {
  const client = 'TEMPORAL_TLS_CLIENT_CERT_PATH, TEMPORAL_TLS_CLIENT_KEY_PATH'
  const authority = 'TEMPORAL_TLS_SERVER_CA_CERT_PATH'
  const [cert, key, ca] = [readPem(client, clientCert), readPem(client, clientKey), readPem(authority, serverCACert)]
  try {
    if (cert !== null && key !== null) createSecureContext({ cert, key })
  } catch (cause) {
    const reason = (cause as Error).message.split(':').at(-1)
    throw new Error(
      `the client's certificate and its key (${client}) are no pair in PEM without a password: ${reason}`,
      {
        cause,
      },
    )
  }
  try {
    if (ca !== null) new X509Certificate(ca)
  } catch {
    throw new Error(`the certificate authority (${authority}) is no certificate in PEM`)
  }
}

function readPem(names: string, source: PemSource | undefined): Buffer | null {
  if (source === undefined) return null
  if (!('path' in source)) return Buffer.from(source.data)
  try {
    return readFileSync(source.path)
  } catch (cause) {
    throw new Error(`${source.path} cannot be read: ${(cause as NodeJS.ErrnoException).code} (${names})`, { cause })
  }
}

type PemSource = NonNullable<NonNullable<Profile['tls']>['clientCert']>

type Profile = ReturnType<typeof loadClientConfigProfile>

/** What is wrong, and in which file if it stands there. */
function describe(cause: unknown, variables: Record<string, string>): string {
  if (!(cause instanceof Error)) return String(cause)
  const [first = ''] = cause.message.split('\n')
  const file = profilesPath(variables)
  const { line } = cause as { line?: unknown }
  if (typeof line === 'number') return `${first} (${file}:${line})`
  // Its own reader looks into a table that is not there.
  if (cause instanceof TypeError) return `Expected a table [profile.default] in ${file}`
  if (first.startsWith('Validation error')) {
    return `${first} (${file}). A profile may have address, namespace, api_key, grpc_meta, and below tls the keys of TEMPORAL_TLS_…`
  }
  return first.includes('not found in config data') ? `${first} (TEMPORAL_PROFILE, ${file})` : first
}

/** As Temporal's own tools look for it. */
function profilesPath({
  TEMPORAL_CONFIG_FILE: named,
  XDG_CONFIG_HOME: settings,
  HOME: home = homedir(),
}: Record<string, string>): string {
  const folder =
    process.platform === 'darwin' ? join(home, 'Library/Application Support') : (settings ?? join(home, '.config'))
  return named ?? join(folder, 'temporalio/temporal.toml')
}

/** The reader takes these in silence, and the connection would be another one than the person asked for. */
function refuseWhatWouldBeIgnored(variables: Record<string, string>): void {
  const { TEMPORAL_CONFIG_FILE: file, TEMPORAL_TLS: tls } = variables
  if (file !== undefined && statSync(file, { throwIfNoEntry: false })?.isDirectory() !== false) {
    throw invalid(`Expected a file of profiles at ${file} (TEMPORAL_CONFIG_FILE)`)
  }
  if (tls !== undefined && !['true', 'false', '1', '0'].includes(tls)) {
    throw invalid(`Expected TEMPORAL_TLS to be true or false, got ${JSON.stringify(tls)}`)
  }
  if (variables['TEMPORAL_TLS_DISABLE_HOST_VERIFICATION'] !== undefined) {
    throw invalid(
      'TEMPORAL_TLS_DISABLE_HOST_VERIFICATION is not supported: name the certificate authority in TEMPORAL_TLS_SERVER_CA_CERT_PATH, and the name in the certificate in TEMPORAL_TLS_SERVER_NAME',
    )
  }
}

/** The transport would take a scheme for a part of the host's name, and throws an error of its own for such a port. */
function requireAddress(address: string): void {
  const port = /:(\d+)$/.exec(address)?.[1] ?? '0'
  if (!/^https?:\/\/|\s/.test(address) && Number(port) < 65_536) return
  throw invalid(
    `Expected the address of the Temporal server as HOST:PORT, such as temporal:7233, got ${quoteAddress(address)}`,
  )
}

function said(env: NodeJS.ProcessEnv, name: string): string | undefined {
  return env[name] === '' ? undefined : env[name]
}

function invalid(message: string, cause?: unknown): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message, ...(cause === undefined ? {} : { cause }) })
}
