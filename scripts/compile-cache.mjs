// Keeps what V8 compiles and what Node strips of types, for the next process: half of the time that a command takes to start.
// Plain JavaScript for any Node >= 20: this code runs before Node 24 is found.
import { mkdirSync, statSync } from 'node:fs'
import * as module from 'node:module'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'

/**
 * For this process and those that it starts. A person's own cache, not Node's default below the temporary folder, where others
 * could put code. `NODE_COMPILE_CACHE` chooses another folder, `NODE_DISABLE_COMPILE_CACHE=1` none.
 */
export function keepCompiledCode(env = process.env) {
  const cache = env.LONGHAUL_CACHE || join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'longhaul')
  if (env.NODE_DISABLE_COMPILE_CACHE) return
  env.NODE_COMPILE_CACHE ||= join(resolve(cache), 'compiled')
  // A folder that cannot be made costs the saving and nothing else. Node, asked for it, may try for ever: here, and in each process that it starts.
  if (!canMake(env.NODE_COMPILE_CACHE)) {
    delete env.NODE_COMPILE_CACHE
    env.NODE_DISABLE_COMPILE_CACHE = '1'
    return
  }
  // Node 20 has none.
  module.enableCompileCache?.(env.NODE_COMPILE_CACHE)
}

/** Without `recursive`, which never returns where a parent takes no new names, as /proc. */
function canMake(folder) {
  try {
    if (statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return true
    if (dirname(folder) === folder || !canMake(dirname(folder))) return false
    mkdirSync(folder)
    return true
  } catch (error) {
    // Another process was faster.
    return error?.code === 'EEXIST'
  }
}
