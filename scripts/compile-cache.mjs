// Keeps what V8 compiles and what Node strips of types, for the next process: half of the time that a command takes to start.
// Plain JavaScript for any Node >= 20: this code runs before Node 24 is found.
import * as module from 'node:module'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'

/**
 * For this process and those that it starts. A person's own cache, not Node's default below the temporary folder, where others
 * could put code. `NODE_COMPILE_CACHE` chooses another folder, `NODE_DISABLE_COMPILE_CACHE=1` none.
 */
export function keepCompiledCode(env = process.env) {
  const cache = env.LONGHAUL_CACHE || join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'longhaul')
  env.NODE_COMPILE_CACHE ||= join(resolve(cache), 'compiled')
  // Node 20 has none. A folder that cannot be written costs the saving and nothing else.
  module.enableCompileCache?.(env.NODE_COMPILE_CACHE)
}
