/** A worker of the product with the phases between its activities and the world. Run by the chaos stack only. */
import { runWorker, type Role } from '../../../src/workers/run-worker.ts'
import { createInterposers } from './interpose.ts'

const {
  CHAOS_CONTROL: controlUrl = '',
  CHAOS_PROCESS: name = '',
  CHAOS_ROLE: role = '',
  CHAOS_AUDIT: auditFolder = '',
} = process.env
await runWorker({ role: role as Role, interposers: createInterposers({ controlUrl, process: name, auditFolder }) })
