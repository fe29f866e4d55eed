/**
 * The routes of vLLM that a keeper and a training job use, with their effects: `node sleepy-engine.ts PORT [awake]`. `awake` refuses
 * to sleep, like a vLLM started without `--enable-sleep-mode`. `GET /seen` lists the requests.
 */
import { createServer } from 'node:http'

const [, , port, how] = process.argv
const seen: string[] = []
let label = 'v000001-aaaaaaaa'
let isSleeping = false

createServer((request, response) => {
  const { url = '' } = request
  const path = url.split('?')[0] ?? ''
  let body = ''
  request.on('data', (chunk) => (body += String(chunk)))
  request.on('end', () => {
    if (!['/health', '/seen'].includes(path)) seen.push(url)
    if (path === '/update_weight_version') label = (JSON.parse(body) as { new_version: string }).new_version
    if (path === '/sleep' && how === 'awake')
      return response.writeHead(400).end('{"error":"sleep mode is not enabled"}')
    if (path === '/sleep') isSleeping = true
    if (path === '/wake_up' && !url.includes('tags=')) isSleeping = false
    return response.end(JSON.stringify({ is_sleeping: isSleeping, weight_version: label, seen }))
  })
}).listen(Number(port), '127.0.0.1')
