import assert from 'node:assert/strict'
import { test } from 'node:test'
import { quoteAddress } from './quote-address.ts'

const CASES: [text: string, shown: string][] = [
  ['https://viewer.example.org/', '"https://viewer.example.org/"'],
  ['https://me:hidden@viewer.example.org/', '"https://***@viewer.example.org/"'],
  ['https://hidden@host:1/x@y', '"https://***@host:1/x@y"'],
  ['mysql://me:hid@den@host/db', '"mysql://***@host/db"'],
  ['no address', '"no address"'],
]

for (const [text, shown] of CASES) {
  test(`shows ${shown} without user and password`, () => assert.equal(quoteAddress(text), shown))
}
