import { escapeHtml } from './escape.ts'
import { STYLE } from './html-style.ts'

/** One static file around a body: no script, nothing fetched, and the policy in its head says so to the browser. */
export function renderPage({ title, body }: { title: string; body: readonly string[] }): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)} · Longhaul</title>
<style>${STYLE}</style>
</head>
<body>
<main>
${body.join('\n')}
</main>
</body>
</html>
`
}
