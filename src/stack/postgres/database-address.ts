import { LonghaulError } from '../../contracts/errors.ts'

/** A PostgreSQL server and the two databases there that Temporal uses. */
export interface DatabaseAddress {
  /** As it goes into a URL: names and passwords stay percent-encoded, IPv6 in brackets. */
  host: string
  port: number
  user: string
  /** As it is; empty where PGPASSFILE, a certificate or the socket's owner answers for the user. */
  password: string
  database: string
  /** Temporal's index of workflows. */
  visibility: string
  /** Further parameters of libpq: `sslmode`, or a socket's folder as `host`, which wins. */
  attributes: Record<string, string>
  /** For people, without the password. */
  title: string
}

const POSTGRES_PORT = 5432
/** A server that does not answer must not cost minutes. */
const CONNECT_S = '10'

/**
 * Of `postgres://user:password@host:port/database?sslmode=verify-full`. Without a password PGPASSWORD, then PGPASSFILE and `~/.pgpass` have
 * it, which no other user of the machine can read from a list of processes.
 * @throws LonghaulError `Config.Invalid`
 */
export function parseDatabaseUrl(text: string, env: NodeJS.ProcessEnv = process.env): DatabaseAddress {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || !/^postgres(ql)?:$/.test(url.protocol)) throw invalid('it is not a PostgreSQL URL')
  const attributes: Record<string, string> = { connect_timeout: CONNECT_S }
  for (const [name, value] of url.searchParams) attributes[name] = value
  if (url.username === '') throw invalid('it names no user')
  if (url.hostname === '') throw invalid('it names no host')
  const database = decodeURIComponent(url.pathname.slice(1)) || 'temporal'
  // The SQL tool writes names into statements as they are.
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,50}$/.test(database)) {
    throw invalid(`its database is ${JSON.stringify(database)}, where letters, digits and _ are expected`)
  }
  const host = url.hostname
  const port = url.port === '' ? POSTGRES_PORT : Number(url.port)
  return {
    host,
    port,
    user: url.username,
    password: url.password === '' ? (env['PGPASSWORD'] ?? '') : decodeURIComponent(url.password),
    database,
    visibility: `${database}_visibility`,
    attributes,
    title: `PostgreSQL at ${attributes['host'] ?? `${host}:${port}`}, databases ${database} and ${database}_visibility`,
  }
}

/** Names the databases alone: a new password leads to the same runs. */
export function isSameDatabase(left: string, right: string): boolean {
  const place = (text: string): string => {
    const { host, port, database, attributes } = parseDatabaseUrl(text, {})
    return [attributes['host'] ?? host, port, database].join(' ')
  }
  return place(left) === place(right)
}

function invalid(why: string): LonghaulError {
  return new LonghaulError({
    code: 'Config.Invalid',
    // The text itself may hold a password.
    message: `Expected --temporal postgres://USER@HOST:5432/DATABASE, with the password in PGPASSWORD or PGPASSFILE: ${why}`,
  })
}
