/** Chromium for tests and measurements: Debian's, steered by playwright-core, which brings no browser of its own. */
import { existsSync } from 'node:fs'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { installPackages, mayInstallPackages } from '../../src/stack/setup/system-packages.ts'

const PLACES = [
  process.env['LONGHAUL_CHROMIUM'],
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
]

function findBrowser(): string | null {
  return PLACES.find((path) => path !== undefined && path !== '' && existsSync(path)) ?? null
}

/** Installed where this process may. @throws Error where there is none and none can be had */
export async function openBrowser(): Promise<Browser> {
  if (findBrowser() === null && (await mayInstallPackages())) {
    const context = { log: console.error, signal: new AbortController().signal }
    await installPackages({ packages: ['chromium'], context })
  }
  const executablePath = findBrowser()
  if (executablePath === null) {
    throw new Error('Expected Chromium: apt-get install chromium, or name it in LONGHAUL_CHROMIUM')
  }
  // Root's Chromium has no sandbox of its own; its pages are the viewer's and the test's.
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] })
}

/**
 * A page that other work on this machine does not break. Chromium gives up every connection that it is opening when an interface of
 * the machine comes or goes (ERR_NETWORK_CHANGED), as those of containers and pods do all the time; a page that lacks one of its
 * modules then stays blank. So this process asks for what the page wants, but for streams of events, which a page opens again itself.
 */
export async function openSteadyPage(browser: Browser, options: BrowserContextOptions = {}): Promise<Page> {
  const page = await browser.newPage(options)
  await page.route(/^http:/, async (route) => {
    if (route.request().resourceType() === 'eventsource') return route.continue()
    try {
      await route.fulfill({ response: await route.fetch({ maxRedirects: 0, maxRetries: 3 }) })
    } catch {
      // The page has gone, or the server has: the page is told of the latter.
      await route.abort().catch(() => undefined)
    }
  })
  return page
}
