/** A mutant that no test detected. */
export interface ExplainedSurvivor {
  file: string
  /** Both texts are on one line, cut if they are long. */
  original: string
  replacement: string
}

/** Whether the page lists the survivor under the heading of its file: `` `original → replacement` ``, followed by the reason. */
export function explains(page: string, { file, original, replacement }: ExplainedSurvivor): boolean {
  const [, ...sections] = page.split(/^### /m)
  const ofFile = sections.filter((section) => section.startsWith(`\`${file}\``))
  return ofFile.some((section) => section.includes(survivorText({ original, replacement })))
}

/** As Markdown. Code spans cannot contain backticks, so those of template literals become apostrophes. */
export function survivorText({ original, replacement }: Omit<ExplainedSurvivor, 'file'>): string {
  return `\`${original} → ${replacement}\``.replaceAll(/(?<!^)`(?!$)/g, '’')
}
