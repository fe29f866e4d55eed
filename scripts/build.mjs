// Compiles `src` to `dist`, or to the folder of the repository that is named, and makes the workflow bundle that an installed package
// ships. Runs under Node 24.
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const dist = resolve(root, process.argv[2] ?? 'dist')
const started = Date.now()

rmSync(dist, { recursive: true, force: true })
run('tsc', ['-p', 'tsconfig.build.json', '--outDir', dist])
copyAssets()
runScript('build-viewer.mjs', join(dist, 'viewer', 'pages'))
const { bundleWorkflowCode } = await import('@temporalio/worker')
const { withoutForeignSources, WORKFLOW_INTERCEPTORS } = await import(
  pathToFileURL(join(dist, 'platform', 'bundle-sources.js')).href
)
const bundled = await bundleWorkflowCode({
  workflowsPath: join(dist, 'workflows', 'index.js'),
  workflowInterceptorModules: WORKFLOW_INTERCEPTORS.map((name) => join(dist, 'workflows', `${name}.js`)),
  logger: quiet(),
})
const code = withoutForeignSources(bundled.code)
writeFileSync(join(dist, 'workflow-bundle.js.new'), code)
renameSync(join(dist, 'workflow-bundle.js.new'), join(dist, 'workflow-bundle.js'))
console.error(
  `built dist in ${((Date.now() - started) / 1000).toFixed(1)} s, bundle ${Math.round(code.length / 1024)} KB`,
)

/** Scripts and pages that the code reads at run time lie beside it. */
function copyAssets() {
  const source = join(root, 'src')
  for (const entry of readdirSync(source, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || entry.name.endsWith('.ts')) continue
    const file = join(entry.parentPath, entry.name)
    const target = join(dist, relative(source, file))
    mkdirSync(dirname(target), { recursive: true })
    cpSync(file, target)
  }
}

function run(tool, args) {
  const result = spawnSync(join(root, 'node_modules', '.bin', tool), args, { cwd: root, stdio: 'inherit' })
  if (result.status !== 0) process.exit(result.status ?? 2)
}

function runScript(name, ...args) {
  const result = spawnSync(process.execPath, [join(root, 'scripts', name), ...args], {
    cwd: root,
    stdio: ['ignore', 2, 2],
  })
  if (result.status !== 0) process.exit(result.status ?? 2)
}

function quiet() {
  const ignore = () => undefined
  return { log: ignore, trace: ignore, debug: ignore, info: ignore, warn: console.error, error: console.error }
}
