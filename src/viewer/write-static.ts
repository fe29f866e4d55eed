/** Writes a run as plain files: the same pages with the same data, for readers without a server. */
import { readdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { LonghaulError } from '../contracts/errors.ts'
import { createSlots } from '../platform/limiter.ts'
import { type Assets, FILE_POLICY } from './assets.ts'
import { createPages, type Pages } from './pages.ts'
import type { EpisodesPage, NightsPage, Page, RunPage } from './pages.types.ts'
import { readRunLine } from './read-run.ts'
import { dataFile } from './shared/data-file.ts'
import { partOf } from './shared/turn-parts.ts'
import { makeDirectory } from '../platform/files.ts'

const WRITES = 8

export interface WriteStaticInput {
  store: ArtifactStore
  assets: Assets
  run: string
  /** Created if absent; otherwise it must be empty, so that no old page stays among new ones. */
  directory: string
}

/** @returns number of files @throws LonghaulError `Config.Invalid`, `Config.NotFound` */
export async function writeStatic({ store, assets, run, directory }: WriteStaticInput): Promise<number> {
  await requireEmpty(directory)
  const pages = createPages(store)
  const runPage = (await required(pages, `run/${run}`)) as RunPage
  const { rows } = (await required(pages, `episodes/${run}`)) as EpisodesPage
  const names = [
    `run/${run}`,
    `report/${run}`,
    `episodes/${run}`,
    ...rows.map(({ episode }) => `episode/${episode}`),
    ...comparisonsOf(runPage),
    // The run's own series, so that it is seen among its nights. The report has no pages of other runs.
    ...runPage.series.map((series) => `trend/${series}`),
  ]
  // Besides the run's pages: the list of runs, the list of nights and the assets.
  let files = 2 + Object.keys(assets).length
  const write = async (name: string): Promise<void> => {
    const page = await required(pages, name)
    await writePage(directory, name, page)
    files += 1
    for (const more of morePagesOf(page)) await write(more)
  }
  const slots = createSlots(WRITES)
  await Promise.all(names.map((name) => slots.use(() => write(name))))
  await writePage(directory, 'runs', { kind: 'runs', runs: [await readRunLine(store, run)] })
  const all = (await required(pages, 'nights')) as NightsPage
  const own = all.series.filter(({ series }) => runPage.series.includes(series))
  await writePage(directory, 'nights', { kind: 'nights', series: own })
  const { 'index.html': page, ...others } = assets
  for (const [name, bytes] of Object.entries(others)) await writeFile(join(directory, name), bytes)
  // The page last: a directory that contains it is complete.
  await writeFile(join(directory, 'index.html'), asFile(page.toString()))
  return files
}

async function requireEmpty(directory: string): Promise<void> {
  await makeDirectory(directory)
  const [first] = await readdir(directory)
  if (first === undefined) return
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected ${directory} to be empty or absent, it has ${JSON.stringify(first)}; name another directory`,
  })
}

async function required(pages: Pages, name: string): Promise<Page> {
  const page = await pages.read(name)
  if (page !== null) return page
  throw new LonghaulError({ code: 'Config.NotFound', message: `No page ${name} can be made from the records` })
}

/** For an episode: its turns, and its tokens if it was trained on. For turns: those whose texts are cut. */
function morePagesOf(page: Page): string[] {
  if (page.kind === 'episode') {
    const { turns, hasTokens } = page
    const { episode } = page.row
    // The page asks for the first part before it knows the number of parts.
    const parts = new Set([0, ...turns.map(({ turn }) => partOf(turn))])
    return [...(hasTokens ? [`tokens/${episode}`] : []), ...[...parts].map((part) => `turns/${part}/${episode}`)]
  }
  if (page.kind !== 'turns') return []
  const long = page.turns.filter(({ reply, command, observation }) =>
    [reply, command, observation?.text].some(
      (text) => text !== null && text !== undefined && text.text.length < text.chars,
    ),
  )
  return long.map(({ turn }) => `turn/${turn}/${page.episode}`)
}

/** Each evaluation against every earlier one of its suite. */
function comparisonsOf({ run, evaluations }: RunPage): string[] {
  return evaluations.flatMap((before, at) =>
    evaluations
      .slice(at + 1)
      .filter(({ suite }) => suite === before.suite)
      .map((after) => `compare/${run}/${before.name}/${run}/${after.name}`),
  )
}

/** A script, since pages opened as files cannot load data files. JSON is valid JavaScript. */
async function writePage(directory: string, name: string, page: Page): Promise<void> {
  const file = join(directory, dataFile(name))
  await makeDirectory(dirname(file))
  await writeFile(file, `longhaulPage(${JSON.stringify(name)},${JSON.stringify(page)})\n`)
}

function asFile(page: string): string {
  const policy = `<meta http-equiv="Content-Security-Policy" content="${FILE_POLICY}" />`
  return page.replace('<head>', `<head>\n    ${policy}\n    <meta name="longhaul-pages" content="files" />`)
}
