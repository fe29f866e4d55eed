import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readdir, readFile, readlink, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { after, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { longhaul } from '../../../test/support/command-line.ts'
import { loadRecipe, recipeNames } from '../../adapters/recipes/load-recipe.ts'
import { settingsOf } from '../../client/schedule-settings.ts'
import { packageFile } from '../../stack/paths.ts'
import { environmentExample } from '../arguments/environment-example.ts'
import { readScheduleFile } from '../arguments/schedule-file.ts'

const root = await mkdtemp(join(tmpdir(), 'longhaul-init-'))
after(() => rm(root, { recursive: true }))
const builtIn = await recipeNames([packageFile('recipes')])

const fresh = () => mkdtemp(join(root, 'dir-'))

/** As an editor finds it: the first line names a file, and the file names itself. */
async function schemaOf(recipe: string): Promise<{ $id: string; title: string }> {
  const [first = ''] = (await readFile(recipe, 'utf8')).split('\n')
  const [, place] = /^# yaml-language-server: \$schema=(\S+)$/.exec(first) ?? []
  assert.ok(place !== undefined, `${recipe} begins with ${first}`)
  const path = resolve(dirname(recipe), place)
  const schema = JSON.parse(await readFile(path, 'utf8')) as { $id: string; title: string }
  assert.equal(new URL(schema.$id, pathToFileURL(path)).href, pathToFileURL(path).href)
  return schema
}

for (const from of builtIn) {
  test(`a start from ${from}: the same settings, its comments, a schema that resolves, and commands that take it`, async () => {
    const directory = join(await fresh(), 'not', 'there', 'yet')
    const { exitCode, stdout, stderr } = await longhaul('init', directory, '--from', from)
    assert.equal(exitCode, 0, stderr)
    const path = join(directory, `my-${from}.yaml`)
    const text = await readFile(path, 'utf8')
    const [{ recipe: made }, { recipe: source, text: sourceText }] = await Promise.all([
      loadRecipe({ name: `my-${from}`, text }),
      loadRecipe({ name: from, dirs: [packageFile('recipes')] }),
    ])
    assert.deepEqual({ ...made, name: '' }, { ...source, name: '' })
    for (const line of sourceText.split('\n').slice(1)) assert.ok(text.includes(line), line)
    assert.equal((await schemaOf(path)).title, 'Longhaul recipe')
    assert.equal(text.match(/yaml-language-server/g)?.length, 1)

    const wanted = made.rft !== null || made.reinforce !== null ? 'train' : 'evaluate'
    assert.match(stdout, new RegExp(`longhaul ${wanted} --recipe ${path}$`, 'm'))
    const check = /^check it +longhaul (.*)$/m.exec(stdout)?.[1] ?? ''
    const checked = await longhaul(...check.split(' '))
    assert.deepEqual([checked.exitCode, checked.stderr], [0, ''])
  })
}

test('recipes of the package name a schema that names itself', async () => {
  for (const name of builtIn) await schemaOf(packageFile(`recipes/${name}.yaml`))
})

test('a second start of the same name: refused, and every file is as it was; another name keeps the schema', async () => {
  const directory = await fresh()
  await longhaul('init', directory)
  const path = join(directory, 'my-mini.yaml')
  await writeFile(path, 'seed: 7 # mine\n')
  const again = await longhaul('init', directory, '--json')
  assert.equal(again.exitCode, 1)
  assert.match(again.stdout + again.stderr, /my-mini\.yaml is there already and stays as it is.*Nothing was written/)
  assert.equal(await readFile(path, 'utf8'), 'seed: 7 # mine\n')
  const other = await longhaul('init', directory, '--name', 'other', '--json')
  assert.deepEqual((JSON.parse(other.stdout) as { written: string[] }).written, [join(directory, 'other.yaml')])
})

test('what lies in the way keeps everything from being written: a link, a folder, a schema of others, a file for the directory', async () => {
  const inTheWay: Record<string, (directory: string) => Promise<void>> = {
    'a link to a file that is not there': (directory) => symlink('/nowhere/at-all', join(directory, 'my-mini.yaml')),
    'a link of the schema': (directory) => symlink(join(root, 'elsewhere.json'), join(directory, 'recipe.schema.json')),
    'a folder': (directory) => mkdir(join(directory, 'my-mini.yaml')),
    'a schema of others': (directory) => writeFile(join(directory, 'recipe.schema.json'), '{"title": "Soup"}'),
    'no JSON': (directory) => writeFile(join(directory, 'recipe.schema.json'), 'soup'),
  }
  for (const [what, put] of Object.entries(inTheWay)) {
    const directory = await fresh()
    await put(directory)
    const before = await readdir(directory)
    const { exitCode, stderr } = await longhaul('init', directory)
    assert.deepEqual([exitCode, await readdir(directory)], [1, before], what)
    assert.match(stderr, /is there already and stays as it is/, what)
  }
  const file = join(await fresh(), 'file')
  await writeFile(file, '')
  const { exitCode, stderr } = await longhaul('init', file)
  assert.equal(exitCode, 1)
  assert.match(stderr, /Expected a directory that may be written/)
})

test('a schema of an earlier version is renewed', async () => {
  const directory = await fresh()
  await writeFile(join(directory, 'recipe.schema.json'), '{"title": "Longhaul recipe", "properties": {}}')
  assert.equal((await longhaul('init', directory)).exitCode, 0)
  assert.equal((await schemaOf(join(directory, 'my-mini.yaml'))).$id, 'recipe.schema.json')
})

test('names that could leave the directory, of a built-in recipe, and of none: refused before anything is written', async () => {
  const directory = await fresh()
  for (const args of [
    ['--name', '../out'],
    ['--name', 'mini'],
    ['--name', ''],
    ['--from', 'minni'],
    ['--from', './mini.yaml'],
  ]) {
    const { exitCode, stderr } = await longhaul('init', directory, ...args)
    assert.equal(exitCode, 1, args.join(' '))
    assert.match(stderr, /^error Config\./)
  }
  assert.match((await longhaul('init', directory, '--from', 'minni')).stderr, /did you mean mini\?/)
  assert.deepEqual(await readdir(directory), [])
})

test('--dry-run says what it would write and writes nothing; a directory with a space is quoted in the commands', async () => {
  const directory = join(root, 'with space')
  const { exitCode, stdout } = await longhaul('init', directory, '--dry-run')
  assert.equal(exitCode, 0)
  assert.match(stdout, /^would write .*recipe\.schema\.json\nwould write .*my-mini\.yaml$/m)
  assert.ok(stdout.includes(`longhaul up`) && stdout.includes(`'${directory}/my-mini.yaml'`))
  await assert.rejects(readdir(directory), { code: 'ENOENT' })
})

test('recipe schema prints the schema, writes it, finds it up to date, and leaves files of others alone', async () => {
  const directory = await fresh()
  const output = join(directory, 'recipe.schema.json')
  const printed = await longhaul('recipe', 'schema')
  assert.equal((JSON.parse(printed.stdout) as { $id: string }).$id, 'recipe.schema.json')
  const write = async () =>
    JSON.parse((await longhaul('recipe', 'schema', '--output', output, '--json')).stdout) as object
  assert.deepEqual(await write(), { output, changed: true })
  assert.deepEqual(await write(), { output, changed: false })
  assert.deepEqual(JSON.parse(await readFile(output, 'utf8')), JSON.parse(printed.stdout))
  await writeFile(output, '{}')
  const refused = await longhaul('recipe', 'schema', '--output', output)
  assert.deepEqual([refused.exitCode, await readFile(output, 'utf8')], [1, '{}'])
})

test('beside the recipe: an example of the variables, schedules that are understood, and for CI its file at the root of the repository', async () => {
  for (const from of builtIn) {
    const repository = await fresh()
    await mkdir(join(repository, '.git'))
    const directory = join(repository, 'rl')
    const { exitCode, stdout, stderr } = await longhaul('init', directory, '--from', from, '--ci', 'github')
    assert.equal(exitCode, 0, stderr)
    assert.equal(await readFile(join(directory, '.env.example'), 'utf8'), environmentExample())
    const { schedules, alarms } = await readScheduleFile(join(directory, 'schedules.yaml'))
    assert.deepEqual([schedules.map(({ id }) => id), alarms], [[`my-${from}-nightly`], null])
    for (const schedule of schedules) settingsOf(schedule)
    const job = await readFile(join(repository, '.github/workflows/longhaul.yml'), 'utf8')
    assert.ok(job.includes(`|| './rl/my-${from}.yaml' }}`), job)
    assert.equal(job.includes('./infra/ci'), false)
    assert.match(stdout, /^every night +longhaul schedule apply \S+schedules\.yaml --dry-run$/m)
    assert.match(stdout, /^have it in CI +npm install --save-dev longhaul/m)
  }
})

test('of a project there is one of each: what is there stays as it is, also a link, and is named', async () => {
  const directory = await fresh()
  await writeFile(join(directory, '.env.example'), 'MINE=1\n')
  await symlink('/nowhere/at-all', join(directory, 'schedules.yaml'))
  await writeFile(join(directory, '.gitlab-ci.yml'), 'mine: {}\n')
  const { exitCode, stdout } = await longhaul('init', directory, '--ci', 'gitlab', '--json')
  assert.equal(exitCode, 0)
  const { written, kept, next } = JSON.parse(stdout) as { written: string[]; kept: string[]; next: object }
  assert.deepEqual(
    [written, kept].map((paths) => paths.map((path) => basename(path))),
    [
      ['recipe.schema.json', 'my-mini.yaml'],
      ['.env.example', 'schedules.yaml', '.gitlab-ci.yml'],
    ],
  )
  assert.deepEqual(
    await Promise.all(['.env.example', '.gitlab-ci.yml'].map((name) => readFile(join(directory, name), 'utf8'))),
    ['MINE=1\n', 'mine: {}\n'],
  )
  assert.equal(await readlink(join(directory, 'schedules.yaml')), '/nowhere/at-all')
  assert.equal('every night' in next || 'have it in CI' in next, false)
})

test('a path that could be more than a path in the file of a CI system: refused before anything is written', async () => {
  const directory = join(await fresh(), "it's ${{ here }}")
  const parent = dirname(directory)
  await mkdir(join(parent, '.git'))
  const { exitCode, stderr } = await longhaul('init', directory, '--ci', 'github')
  assert.equal(exitCode, 1)
  assert.match(stderr, /Expected beside --ci a path of letters/)
  assert.deepEqual(await readdir(parent), ['.git'])
})
