/** A worker of the product that stops at the phases between its activities and the outside world. Only the chaos stack runs it. */
import { runWorker, type Role } from '../../../src/workers/run-worker.ts'
import { createInterposers } from './interpose.ts'

const {
  CHAOS_CONTROL: controlUrl = '',
  CHAOS_PROCESS: name = '',
  CHAOS_ROLE: role = '',
  CHAOS_AUDIT: auditFolder = '',
} = process.env
await runWorker({ role: role as Role, interposers: createInterposers({ controlUrl, process: name, auditFolder }) })
