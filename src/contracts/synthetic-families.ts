/** Kinds of synthesised tasks: docs/datasets.md tells what each asks for. */
export const SYNTHETIC_FAMILIES = ['one-wrong-line', 'half-renamed'] as const

export type SyntheticFamily = (typeof SYNTHETIC_FAMILIES)[number]
