/**
 * The page at the viewer's address without its token: where links lead that others can read, such as those in the Temporal UI. It
 * holds nothing. In a browser that has opened the whole address before, it completes the link from what that browser kept.
 */
import { TOKEN_KEY } from './shared/token-key.ts'

const SCRIPT = `const token = localStorage.getItem(${JSON.stringify(TOKEN_KEY)})
if (token !== null && /^[\\w-]+$/.test(token)) location.replace('/' + token + '/' + location.hash)
`

const PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Longhaul</title>
<script src="/open.js"></script>
<h1>Longhaul</h1>
<p>Open the address that <code>longhaul view</code> printed, once in this browser. From then on this link works.</p>
</html>
`

export const OPENER = {
  '/': { type: 'text/html; charset=utf-8', body: PAGE },
  '/open.js': { type: 'text/javascript; charset=utf-8', body: SCRIPT },
} as const
