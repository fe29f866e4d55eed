/** A process that behaves like an engine towards its keeper: `node tiny-engine.ts PORT [mute | hold]`. */
import { spawn } from 'node:child_process'
import { createServer } from 'node:http'

const [, , port, how] = process.argv
// Like an engine's core: only a signal to its group ends this child.
spawn('sleep', ['3600'], { stdio: 'ignore' })
// Engines finish requests first; `hold` imitates one that hangs and ignores the signal.
if (how === 'hold') process.on('SIGTERM', () => undefined)
else process.on('SIGTERM', () => process.exit(0))
if (how === 'mute') setInterval(() => undefined, 60_000)
else createServer((_, answer) => answer.end('{}')).listen(Number(port), '127.0.0.1')
