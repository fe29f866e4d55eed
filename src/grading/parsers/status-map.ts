/** Test id → status word. A `Map`, because ids such as `__proto__` occur; the last line about an id wins. */
export type StatusMap = Map<string, string>

/** Reads a log whose line ends are LF. @throws PythonError if the imitated parser raises */
export type LogParser = (log: string) => StatusMap

/** `dict.setdefault`: an earlier result stays. */
export function setDefault(statuses: StatusMap, name: string, status: string): void {
  if (!statuses.has(name)) statuses.set(name, status)
}
