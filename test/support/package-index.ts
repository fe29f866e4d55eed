/** A Python registry on loopback with a password and small packages; it records its requests. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { closeServer, listenOnLoopback } from './loopback.ts'

export interface PackageIndex {
  /** Includes user and password. */
  url: string
  /** Paths that were served. */
  asked(): string[]
  close(): Promise<void>
}

interface PackageIndexInput {
  user: string
  password: string
  /** Version by name. */
  packages: Record<string, string>
}

export async function startPackageIndex({ user, password, packages }: PackageIndexInput): Promise<PackageIndex> {
  const wheels = new Map(
    Object.entries(packages).map(([name, version]) => [wheelName(name, version), makeWheel(name, version)]),
  )
  const asked: string[] = []
  const expected = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
  const server = createServer((request, response) => {
    const path = request.url ?? ''
    if (request.headers.authorization !== expected) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="packages"' }).end()
      return
    }
    const name = /^\/simple\/([^/]+)\/$/.exec(path)?.[1]
    const version = name === undefined ? undefined : packages[name]
    const wheel = wheels.get(path.replace('/files/', ''))
    if (name !== undefined && version !== undefined) {
      asked.push(path)
      const file = wheelName(name, version)
      response.writeHead(200, { 'content-type': 'text/html' }).end(`<a href="/files/${file}">${file}</a>`)
    } else if (wheel !== undefined) response.writeHead(200).end(wheel)
    else response.writeHead(404).end()
  })
  const port = await listenOnLoopback(server)
  return {
    url: `http://${user}:${password}@127.0.0.1:${port}/simple/`,
    asked: () => asked,
    close: () => closeServer(server),
  }
}

function wheelName(name: string, version: string): string {
  return `${name}-${version}-py3-none-any.whl`
}

const SCRIPT = `import sys, zipfile
name, version, path = sys.argv[1:]
info = f"{name}-{version}.dist-info"
with zipfile.ZipFile(path, "w") as wheel:
    wheel.writestr(f"{name}.py", "")
    wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr(f"{info}/RECORD", f"{name}.py,,\\n{info}/METADATA,,\\n{info}/WHEEL,,\\n{info}/RECORD,,\\n")
`

function makeWheel(name: string, version: string): Buffer {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-wheel-'))
  try {
    const path = join(folder, wheelName(name, version))
    execFileSync('python3', ['-c', SCRIPT, name, version, path])
    return readFileSync(path)
  } finally {
    rmSync(folder, { recursive: true })
  }
}
