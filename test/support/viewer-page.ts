/** A page of the viewer in a browser, and checks that every page must pass. */
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { HANG_MS } from './hang.ts'

export interface Opened {
  page: Page
  context: BrowserContext
  /** Requests outside of the viewer, errors, and violations of the content policy. */
  wrong: string[]
}

export async function openPage(browser: Browser, address: string): Promise<Opened> {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 } })
  const page = await context.newPage()
  page.setDefaultTimeout(HANG_MS)
  const wrong: string[] = []
  const origin = address.slice(0, address.indexOf('/', 'http://'.length))
  page.on('request', (request) => {
    if (!request.url().startsWith(origin)) wrong.push(`asked ${request.url()}`)
  })
  page.on('pageerror', (error) => wrong.push(error.message))
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().includes('404')) wrong.push(message.text())
  })
  page.on('dialog', (dialog) => {
    wrong.push(`dialog ${dialog.message()}`)
    void dialog.dismiss()
  })
  await page.goto(address, { timeout: HANG_MS })
  return { page, context, wrong }
}

/** Serious or critical violations of axe's rules. */
export async function axe(page: Page): Promise<string[]> {
  const source = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
  // Evaluated as a tool of the browser, which no content policy restricts.
  await page.evaluate(source)
  const broken = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: {
        run(): Promise<{ passes: object[]; violations: { id: string; impact: string; nodes: { html: string }[] }[] }>
      }
    }
    const { passes, violations } = await axe.run()
    if (passes.length < 5) return [`axe looked at ${passes.length} rules only`]
    return violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(
        ({ id, nodes }) =>
          `${id}: ${nodes
            .map(({ html }) => html)
            .join(' ')
            .slice(0, 400)}`,
      )
  })
  return broken
}

/** Elements that only injected text could have created. */
export function foreignElements(page: Page): Promise<number> {
  return page.locator('img, iframe, base, svg [onload], textarea, meta[http-equiv], a[href^="javascript"]').count()
}
