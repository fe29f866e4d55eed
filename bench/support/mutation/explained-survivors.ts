/** A change of the code that no test noticed. */
export interface ExplainedSurvivor {
  file: string
  /** Each on one line, cut where they are long. */
  original: string
  replacement: string
}

/** Whether the page names the survivor below the heading of its file: `` `original → replacement` ``, with the reason after it. */
export function explains(page: string, { file, original, replacement }: ExplainedSurvivor): boolean {
  const [, ...sections] = page.split(/^### /m)
  const ofFile = sections.filter((section) => section.startsWith(`\`${file}\``))
  return ofFile.some((section) => section.includes(survivorText({ original, replacement })))
}

/** In a page of Markdown. Code spans take no backtick, so those of template literals become apostrophes. */
export function survivorText({ original, replacement }: Omit<ExplainedSurvivor, 'file'>): string {
  return `\`${original} → ${replacement}\``.replaceAll(/(?<!^)`(?!$)/g, '’')
}
