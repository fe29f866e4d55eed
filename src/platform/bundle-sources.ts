/** Modules of `src/workflows` that each bundle of workflow code loads first, in the order in which they see an activation. */
export const WORKFLOW_INTERCEPTORS = [
  'trace-interceptors',
  'query-interceptors',
  'input-interceptors',
  'start-interceptors',
] as const

const MAP = /\/\/# sourceMappingURL=data:application\/json;[^,]*base64,/g

/**
 * A bundle of workflow code without the text of foreign modules. Its inline map repeats every source of the SDK: a third of the bundle, held by every worker and read by none. Positions stay for all
 * modules, so stack traces name the same files and lines; the text stays for modules of ours.
 */
export function withoutForeignSources(code: string): string {
  const mark = [...code.matchAll(MAP)].at(-1)
  if (mark === undefined) throw new Error('Expected the workflow bundle to end with an inline source map')
  const at = mark.index + mark[0].length
  const map = JSON.parse(Buffer.from(code.slice(at).trim(), 'base64').toString('utf8')) as SourceMap
  const sourcesContent = map.sourcesContent.map((text, index) =>
    map.sources[index]?.includes('/node_modules/') === true ? null : text,
  )
  return `${code.slice(0, at)}${Buffer.from(JSON.stringify({ ...map, sourcesContent })).toString('base64')}\n`
}

interface SourceMap {
  sources: string[]
  sourcesContent: (string | null)[]
}
