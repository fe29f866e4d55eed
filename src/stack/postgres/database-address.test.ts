import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isLonghaulError } from '../../contracts/errors.ts'
import { isSameDatabase, parseDatabaseUrl } from './database-address.ts'

test('fills in what an address omits, and shows it without the password', () => {
  assert.deepEqual(parseDatabaseUrl('postgres://lab:s%40ft@db.example/runs?sslmode=verify-full', {}), {
    host: 'db.example',
    port: 5432,
    user: 'lab',
    password: 's@ft',
    database: 'runs',
    visibility: 'runs_visibility',
    attributes: { connect_timeout: '10', sslmode: 'verify-full' },
    title: 'PostgreSQL at db.example:5432, databases runs and runs_visibility',
  })
})

test('defaults to the database temporal, takes a socket from host and the password from PGPASSWORD', () => {
  const { host, database, visibility, attributes, title, password } = parseDatabaseUrl(
    'postgresql://lab@localhost/?host=/run/postgresql',
    { PGPASSWORD: 'other' },
  )
  assert.deepEqual([host, database, visibility, password], ['localhost', 'temporal', 'temporal_visibility', 'other'])
  assert.equal(attributes['host'], '/run/postgresql')
  assert.match(title, /^PostgreSQL at \/run\/postgresql,/)
  assert.equal(parseDatabaseUrl('postgres://lab:own@h/x', { PGPASSWORD: 'other' }).password, 'own')
})

for (const [what, text, why] of [
  ['no URL', 'postgres', /it is not a PostgreSQL URL/],
  ['another protocol', 'mysql://lab:geheim@h/x', /it is not a PostgreSQL URL/],
  ['no user', 'postgres://h/x', /it names no user/],
  ['no host', 'postgres://lab:geheim@/x', /it is not a PostgreSQL URL/],
  ['nothing but a path', 'postgres:/x', /it names no user/],
  ['a database with a quote', 'postgres://lab:geheim@h/x%22y', /its database is/],
] as const) {
  test(`refuses an address with ${what} without repeating its password`, () => {
    assert.throws(
      () => parseDatabaseUrl(text, {}),
      (error) =>
        isLonghaulError(error) &&
        error.code === 'Config.Invalid' &&
        why.test(error.message) &&
        !/geheim/.test(error.message),
    )
  })
}

test('two addresses name one database regardless of user and password', () => {
  assert.ok(isSameDatabase('postgres://a:1@h/runs', 'postgresql://b@h:5432/runs?sslmode=require'))
  assert.ok(!isSameDatabase('postgres://a@h/runs', 'postgres://a@h/other'))
  assert.ok(!isSameDatabase('postgres://a@h/runs', 'postgres://a@h:5433/runs'))
})
