import type { Table } from './tables.ts'

/** Wraps a body into one static file without scripts or external resources, which its content security policy enforces. */
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

/** The page's only style sheet. Colours have enough contrast on both backgrounds. */
const STYLE = `
:root { color-scheme: light dark; --ink: #1a2330; --soft: #5b6878; --line: #dde3ea; --paper: #ffffff; --card: #f6f8fb; --accent: #1f6feb; --second: #b26a00; --good: #1a7f37; --bad: #c2362b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf2; --soft: #9aa7b8; --line: #2c3644; --paper: #11161d; --card: #1a212b; --accent: #6ea8fe; --second: #e0a045; --good: #57c478; --bad: #f0796d; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2.2rem 1.4rem 4rem; }
h1 { font-size: 1.65rem; margin: 0; letter-spacing: -0.01em; overflow-wrap: anywhere; }
h2 { font-size: 1.08rem; margin: 2.4rem 0 0.6rem; }
.facts { color: var(--soft); margin: 0.35rem 0 0; overflow-wrap: anywhere; }
code { font: 0.88em ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: 0.9rem; margin: 1.5rem 0 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 0.9rem 1.1rem 1rem; }
.card .stage { color: var(--soft); font-weight: 600; text-transform: uppercase; font-size: 0.75rem; letter-spacing: 0.06em; }
.card .value { font-size: 1.9rem; font-weight: 650; font-variant-numeric: tabular-nums; line-height: 1.25; }
.card .value small { font-size: 1rem; font-weight: 400; color: var(--soft); }
.card .counts { color: var(--soft); font-size: 0.85rem; }
.gauge { display: block; width: 100%; height: 14px; margin: 0.45rem 0 0.35rem; }
.gauge .track { fill: var(--line); } .gauge .fill { fill: var(--accent); } .gauge .range { stroke: var(--ink); stroke-width: 1.5; }
.note { color: var(--soft); font-size: 0.87rem; margin: 0.4rem 0 0; }
.words { border-left: 3px solid var(--second); padding: 0.2rem 0 0.2rem 0.8rem; margin: 1.2rem 0 0; }
.words.bad { border-color: var(--bad); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: 0.82rem; white-space: nowrap; }
th, td { padding: 0.36rem 1rem 0.36rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; white-space: nowrap; }
figure { margin: 0.4rem 0 0; background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 0.8rem 0.8rem 0.6rem; }
figure svg { display: block; width: 100%; height: auto; }
.grid { stroke: var(--line); } .tick, .axis { fill: var(--soft); font-size: 12px; } .name { fill: var(--ink); font-size: 12.5px; font-weight: 600; }
.line { fill: none; stroke-width: 2; } .line.evaluation { stroke: var(--accent); } .line.rollout { stroke: var(--second); stroke-width: 1.3; stroke-dasharray: 4 3; opacity: 0.8; }
.mark line { stroke-width: 1.5; } .mark.evaluation line { stroke: var(--accent); } .mark.evaluation circle { fill: var(--accent); } .mark.rollout line { stroke: var(--second); opacity: 0.75; } .mark.rollout rect { fill: var(--second); }
.legend { color: var(--soft); font-size: 0.85rem; margin: 0.3rem 0.4rem 0; } .legend b { font-weight: 600; } .legend .e { color: var(--accent); } .legend .r { color: var(--second); }
@media print { main { padding: 0; } .card, figure { break-inside: avoid; } }
`

/** A heading, the table and its notes; empty for a table without rows. */
export function renderHtmlTable({ title, columns, rows, notes }: Table): string {
  if (rows.length === 0) return ''
  const cell = (tag: 'th' | 'td', content: string, column: number): string =>
    `<${tag}${columns[column]?.numeric ? ' class="number"' : ''}>${escapeHtml(content)}</${tag}>`
  const header = columns.map(({ name }, column) => cell('th', name, column)).join('')
  const body = rows.map((row) => `<tr>${row.map((content, column) => cell('td', content, column)).join('')}</tr>`)
  return `<h2>${escapeHtml(title)}</h2>
<div class="scroll"><table>
<thead><tr>${header}</tr></thead>
<tbody>
${body.join('\n')}
</tbody>
</table></div>
${notes.map((note) => `<p class="note">${escapeHtml(note)}</p>`).join('\n')}`
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

/**
 * Text for HTML content and quoted attributes. Control and direction characters become visible escapes, so that a name cannot reorder the
 * page around it.
 */
export function escapeHtml(text: string): string {
  return text
    .replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? character)
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, (character) =>
      character === '\n' ? '\n' : `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`,
    )
}
