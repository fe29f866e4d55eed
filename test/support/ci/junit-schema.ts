/**
 * The JUnit XML that Jenkins accepts (`junit-10.xsd` of its xunit plugin, the strictest of the schemas in use), as a table. Python's
 * expat parses the file, so a file that is not well-formed fails too. GitLab and GitHub's actions read the same elements.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

export interface XmlElement {
  tag: string
  attributes: Record<string, string>
  text: string
  children: XmlElement[]
}

interface ElementRule {
  required: string[]
  optional: string[]
  children: string[]
  hasText: boolean
}

const PROBLEM: ElementRule = { required: [], optional: ['type', 'message'], children: [], hasText: true }
const OUTPUT: ElementRule = { required: [], optional: [], children: [], hasText: true }
const RERUN: ElementRule = {
  required: ['type'],
  optional: ['message'],
  children: ['stackTrace', 'system-out', 'system-err'],
  hasText: true,
}
const RERUNS = ['rerunFailure', 'rerunError', 'flakyFailure', 'flakyError']

const RULES: Record<string, ElementRule> = {
  testsuites: {
    required: [],
    optional: ['name', 'time', 'tests', 'failures', 'errors'],
    children: ['testsuite'],
    hasText: false,
  },
  testsuite: {
    required: ['name', 'tests', 'failures', 'errors'],
    optional: ['group', 'time', 'skipped', 'timestamp', 'hostname', 'id', 'package', 'file', 'log', 'url'],
    children: ['testsuite', 'properties', 'testcase', 'system-out', 'system-err'],
    hasText: false,
  },
  properties: { required: [], optional: [], children: ['property'], hasText: false },
  property: { required: ['name', 'value'], optional: [], children: [], hasText: false },
  testcase: {
    required: ['name'],
    optional: ['time', 'classname', 'group'],
    children: ['skipped', 'error', 'failure', ...RERUNS, 'system-out', 'system-err'],
    hasText: false,
  },
  skipped: PROBLEM,
  error: PROBLEM,
  failure: PROBLEM,
  'system-out': OUTPUT,
  'system-err': OUTPUT,
  ...Object.fromEntries(RERUNS.map((name) => [name, RERUN])),
}

const PARSE = `
import json, sys
import xml.etree.ElementTree as tree
def plain(e):
    text = (e.text or '') + ''.join(c.tail or '' for c in e)
    return {'tag': e.tag, 'attributes': e.attrib, 'text': text, 'children': [plain(c) for c in e]}
json.dump(plain(tree.parse(sys.argv[1]).getroot()), sys.stdout)
`

export async function parseXml(python: string, file: string): Promise<XmlElement> {
  const { stdout } = await promisify(execFile)(python, ['-c', PARSE, file], { maxBuffer: 256 * 1024 * 1024 })
  return JSON.parse(stdout) as XmlElement
}

/** Every violation of the JUnit format; the file's counts are also compared with its cases. */
export function faultsOfJUnit(root: XmlElement): string[] {
  const start = ['testsuites', 'testsuite'].includes(root.tag) ? [] : [`the root is ${root.tag}`]
  return [...start, ...faultsOf(root, root.tag)]
}

function faultsOf(element: XmlElement, place: string): string[] {
  const rule = RULES[element.tag]
  if (rule === undefined) return [`${place}: no such element`]
  const { tag, attributes, text, children } = element
  const names = Object.keys(attributes)
  return [
    ...rule.required.filter((name) => !names.includes(name)).map((name) => `${place}: ${name} is missing`),
    ...names
      .filter((name) => ![...rule.required, ...rule.optional].includes(name))
      .map((name) => `${place}: no attribute ${name}`),
    ...(!rule.hasText && text.trim() !== '' ? [`${place}: text`] : []),
    ...(tag === 'testsuite' ? wrongCounts(element, place) : []),
    ...children.flatMap((child, index) => [
      ...(rule.children.includes(child.tag) ? [] : [`${place}: ${child.tag} is not allowed there`]),
      ...faultsOf(child, `${place}/${child.tag}[${index}]`),
    ]),
  ]
}

function wrongCounts({ attributes, children }: XmlElement, place: string): string[] {
  const cases = children.filter(({ tag }) => tag === 'testcase')
  const having = (tag: string): number => cases.filter((one) => one.children.some((child) => child.tag === tag)).length
  const counts = {
    tests: cases.length,
    failures: having('failure'),
    errors: having('error'),
    skipped: having('skipped'),
  }
  return Object.entries(counts)
    .filter(([name, count]) => Number(attributes[name]) !== count)
    .map(([name, count]) => `${place}: ${name} is ${attributes[name]}, there are ${count}`)
}
