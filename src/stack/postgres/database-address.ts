import { LonghaulError } from '../../contracts/errors.ts'

/** A PostgreSQL server and Temporal's two databases on it. */
export interface DatabaseAddress {
  /** As in a URL: IPv6 in brackets. The user stays percent-encoded. */
  host: string
  port: number
  user: string
  /** Decoded; empty if PGPASSFILE, a certificate or the socket's peer authenticates the user. */
  password: string
  database: string
  /** Database of Temporal's workflow index. */
  visibility: string
  /** Further libpq parameters, such as `sslmode`. A socket's folder as `host` overrides the field `host`. */
  attributes: Record<string, string>
  /** For operators, without the password. */
  title: string
}

const POSTGRES_PORT = 5432
/** Without a limit, an unreachable server would block for minutes. */
const CONNECT_S = '10'

/**
 * Parses `postgres://user:password@host:port/database?sslmode=verify-full`. Without a password in the URL, PGPASSWORD, then PGPASSFILE and
 * `~/.pgpass` provide it; other users cannot read those from the process list.
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
  // The SQL tool inserts names into statements without quoting.
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

/** Compares host, port and database only: a new password still leads to the same runs. */
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
    // Omits the URL, which may contain a password.
    message: `Expected --temporal postgres://USER@HOST:5432/DATABASE, with the password in PGPASSWORD or PGPASSFILE: ${why}`,
  })
}
