/** A process that behaves as engines do towards the one that keeps them: `node tiny-engine.ts PORT [mute | hold]`. */
import { spawn } from 'node:child_process'
import { createServer } from 'node:http'

const [, , port, how] = process.argv
// As an engine's core: a child that nothing but a signal to its group ends.
spawn('sleep', ['3600'], { stdio: 'ignore' })
// Engines finish requests first; one that hangs ignores it.
if (how === 'hold') process.on('SIGTERM', () => undefined)
else process.on('SIGTERM', () => process.exit(0))
if (how === 'mute') setInterval(() => undefined, 60_000)
else createServer((_, answer) => answer.end('{}')).listen(Number(port), '127.0.0.1')
