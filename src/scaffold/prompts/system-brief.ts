/** For policies too small to read a manual: they know the tools from training, and the manual would outweigh the episode. */
export const BRIEF_SYSTEM_PROMPT = 'Fix the bug. One command per turn.'
