const STRINGS_AND_WORDS = /"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b/gs

/** JSON as Python reads it: its writer puts NaN and Infinity where JSON has no word. Nothing here reads those fields. */
export function parsePythonJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch (error) {
    const without = text.replace(STRINGS_AND_WORDS, (found) => (found.startsWith('"') ? found : 'null'))
    if (without === text) throw error
    return JSON.parse(without) as unknown
  }
}
