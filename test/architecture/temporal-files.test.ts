/** The files that start Temporal elsewhere say the same as the code that starts it here. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { parse } from 'yaml'
import { SQL_PLUGIN } from '../../src/stack/postgres/schema.ts'
import { searchAttributes } from '../../src/platform/search-attributes.ts'
import { HISTORY_SHARDS } from '../../src/stack/temporal-server-files.ts'

const root = join(import.meta.dirname, '../..')
const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const yaml = (text: string): unknown => parse(text, { merge: true, strict: true, uniqueKeys: true })

interface Compose {
  services: Record<
    string,
    { image: string; environment?: Record<string, string>; command?: string[]; ports?: string[] }
  >
}

interface HelmValues {
  server: {
    image: { tag: string }
    config: {
      persistence: {
        numHistoryShards: number
        datastores: Record<string, { sql: Record<string, unknown> }>
      }
      namespaces: { create: boolean; namespace: { name: string; retention: string }[] }
    }
  }
  admintools: { image: { tag: string } }
  web: { image: { tag: string } }
  extraObjects: string[]
}

interface Job {
  kind: string
  spec: { template: { spec: { containers: { image: string; args: string[] }[] } } }
}

const compose = yaml(read('infra/temporal/compose.yaml')) as Compose
const helm = yaml(read('infra/temporal/helm-values.yaml')) as HelmValues

/** `--name X --type Y` or `--name=X --type=Y`, as pairs. */
function registeredBy(text: string): Record<string, string> {
  const pairs = [...text.matchAll(/--name[= ](\w+)\s+--type[= ](\w+)/g)].map(([, name, type]) => [name, type] as const)
  return Object.fromEntries(pairs) as Record<string, string>
}

/** Of a module that `infra/temporal-server` pins. */
function pinned(module: string): string {
  return new RegExp(`^\\s*${module} v(\\S+)`, 'm').exec(read('infra/temporal-server/go.mod'))?.[1] ?? 'not pinned'
}

test('SQL visibility has a column for each search attribute: ten keywords, three of every other type', () => {
  const counts = new Map<string, number>()
  for (const type of Object.values(searchAttributes())) counts.set(type, (counts.get(type) ?? 0) + 1)
  for (const [type, count] of counts) assert.ok(count <= (type === 'Keyword' ? 10 : 3), `${count} of type ${type}`)
})

test('Compose and Helm values pin the server that the module builds, and its UI', () => {
  const server = pinned('go.temporal.io/server')
  const ui = pinned('github.com/temporalio/ui-server/v2')
  const { temporal, schema, namespace, postgres, ui: page } = compose.services
  assert.deepEqual(
    [temporal?.image, schema?.image, namespace?.image, page?.image],
    [
      `temporalio/server:${server}`,
      `temporalio/admin-tools:${server}`,
      `temporalio/admin-tools:${server}`,
      `temporalio/ui:${ui}`,
    ],
  )
  const major = Number(/^postgres:(\d+)\.\d+-/.exec(postgres?.image ?? '')?.[1])
  assert.ok(major >= 15, postgres?.image)
  assert.deepEqual([helm.server.image.tag, helm.admintools.image.tag, helm.web.image.tag], [server, server, ui])
  // The CLI's development server and this one read each other's histories.
  assert.match(
    read('infra/temporal-cli/go.mod'),
    new RegExp(`go\\.temporal\\.io/server v${server.replaceAll('.', '\\.')} `),
  )
})

test('both configure the plugin and the shards that the code writes', () => {
  const { environment = {} } = compose.services['temporal'] ?? {}
  assert.deepEqual([environment['DB'], environment['NUM_HISTORY_SHARDS']], [SQL_PLUGIN, String(HISTORY_SHARDS)])
  const { numHistoryShards, datastores } = helm.server.config.persistence
  assert.equal(numHistoryShards, HISTORY_SHARDS)
  assert.deepEqual(
    Object.entries(datastores).map(([name, { sql }]) => [name, sql['pluginName'], sql['databaseName'], sql['user']]),
    [
      ['default', SQL_PLUGIN, 'temporal', 'temporal'],
      ['visibility', SQL_PLUGIN, 'temporal_visibility', 'temporal'],
    ],
  )
})

test('both register the search attributes of search-attributes.json and a namespace with a long retention', () => {
  const script = compose.services['namespace']?.command?.join('\n') ?? ''
  assert.deepEqual(registeredBy(script), searchAttributes())
  assert.match(script, /namespace create --namespace default --retention 30d/)

  const job = yaml(helm.extraObjects.join('\n')) as Job
  assert.equal(job.kind, 'Job')
  const [container] = job.spec.template.spec.containers
  assert.deepEqual(registeredBy(container?.args.join(' ') ?? ''), searchAttributes())
  assert.equal(container?.image, compose.services['namespace']?.image)
  const { create, namespace } = helm.server.config.namespaces
  assert.deepEqual([create, namespace], [true, [{ name: 'default', retention: '30d' }]])
})

test('neither opens a port to the network or holds a password', () => {
  const ports = Object.values(compose.services).flatMap((service) => service.ports ?? [])
  assert.deepEqual(ports, ['127.0.0.1:7233:7233', '127.0.0.1:8233:8080'])
  const passwords = read('infra/temporal/compose.yaml').match(/^\s+\w*(?:PASSWORD|PWD): .*$/gm) ?? []
  assert.equal(passwords.length, 3)
  for (const line of passwords) assert.match(line, /: \$\{TEMPORAL_DATABASE_PASSWORD:\?[^}]+\}$/)
  assert.doesNotMatch(read('infra/temporal/helm-values.yaml'), /^\s*password:/m)
})
