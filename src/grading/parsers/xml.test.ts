/** Documents as Python's reader, which is expat, takes or refuses them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PythonError } from './python-text.ts'
import { descendants, parseXml, type XmlElement } from './xml.ts'

/** `[tag, attributes, children]` */
type Shape = [string, Record<string, string>, Shape[]]

const shapeOf = ({ tag, attributes, children }: XmlElement): Shape => [
  tag,
  Object.fromEntries(attributes),
  children.map(shapeOf),
]

/** Null: not well-formed. */
function read(text: string): Shape | null {
  try {
    return shapeOf(parseXml(text))
  } catch (error) {
    assert.ok(error instanceof PythonError && error.message.startsWith('ParseError:'), String(error))
    return null
  }
}

function expectAll(documents: readonly [text: string, expected: Shape | null][]): void {
  for (const [text, expected] of documents) assert.deepEqual(read(text), expected, JSON.stringify(text))
}

const expectRefused = (texts: readonly string[]): void => expectAll(texts.map((text) => [text, null]))

const A: Shape = ['a', {}, []]

test('declarations: accepts any blanks between their parts and either quote, in one order', () => {
  const taken = [
    '<?xml version="1.0"?>',
    "<?xml version='1.0' ?>",
    '<?xml version="1.0" encoding="UTF-8"?>',
    "<?xml version='1.0' encoding='utf-8' standalone='no'?>",
    `<?xml version="1.0" encoding="ISO-8859-1" standalone='yes'?>`,
    '<?xml \t\r\n version \t\r\n = \t\r\n "1.0" \t\r\n encoding \t\r\n = \t\r\n "UTF-8" \t\r\n standalone \t\r\n = \t\r\n "yes" \t\r\n ?>',
  ]
  const refused = [
    '<?xml?>',
    '<?xml ?>',
    '<?xmlversion="1.0"?>',
    '<?xml version?>',
    '<?xml version=1.0?>',
    '<?xml version="1 0"?>',
    '<?xml version="1:0"?>',
    "<?xml version='1:0'?>",
    `<?xml version="1.0'?>`,
    '<?xml encoding="UTF-8"?>',
    '<?xml version="1.0"encoding="UTF-8"?>',
    '<?xml version="1.0" encoding="8-UTF"?>',
    "<?xml version='1.0' encoding='8-UTF'?>",
    '<?xml version="1.0" encoding=""?>',
    '<?xml version="1.0" encoding="UTF-8"standalone="yes"?>',
    '<?xml version="1.0" standalone="maybe"?>',
    '<?xml version="1.0" standalone="yes" encoding="UTF-8"?>',
    '<?xml version="1.0">',
  ]
  expectAll(taken.map((text) => [`${text}<a/>`, A]))
  expectRefused(refused.map((text) => `${text}<a/>`))
  // Five characters and a blank are no declaration.
  expectAll([['<abcd e="1"/>', ['abcd', { e: '1' }, []]]])
})

test('document types: accepts a name and an external identifier, without declarations', () => {
  const taken = [
    '<!DOCTYPE a>',
    '<!DOCTYPE abc >\n<!-- c -->\n',
    '<!DOCTYPE a SYSTEM "">',
    '<!DOCTYPE a SYSTEM "a.dtd">',
    "<!DOCTYPE a SYSTEM 'a b.dtd'>",
    '<!DOCTYPE a PUBLIC "-//A//B" "a.dtd">',
    "<!DOCTYPE a PUBLIC '-//A//B' 'a.dtd'>",
    '<!DOCTYPE a PUBLIC "" \'\'>',
    '<!DOCTYPE \t\r\n a \t\r\n SYSTEM \t\r\n "a.dtd" \t\r\n >',
    '<!DOCTYPE \t\r\n a \t\r\n PUBLIC \t\r\n "-//A//B" \t\r\n "a.dtd" \t\r\n >',
    '<!DOCTYPE p:é>',
    `<!DOCTYPE a SYSTEM "<'é&x;\uFFFD">`,
    `<!DOCTYPE a PUBLIC "aZ09 \n\r-'()+,./:=?;!*#@$_%" 'b"'>`,
    `<!DOCTYPE a PUBLIC 'aZ09 \n\r-()+,./:=?;!*#@$_%' "">`,
    '<!DOCTYPE a[]>',
    '<!DOCTYPE a SYSTEM "a.dtd"[]>',
    '<!DOCTYPE a \t\r\n [ \t\r\n <!-- c --> <?p ]?> %p; <?q?>%é.1;\n] \t\r\n >',
  ]
  const refused = [
    '<!DOCTYPE>',
    '<!DOCTYPEa>',
    '<!DOCTYPE a',
    '<!DOCTYPE a b>',
    '<!DOCTYPE a SYSTEM>',
    '<!DOCTYPE a "a.dtd">',
    '<!DOCTYPE a SYSTEM a.dtd>',
    `<!DOCTYPE a SYSTEM "a.dtd'>`,
    '<!DOCTYPE aSYSTEM"a.dtd">',
    '<!DOCTYPE a SYSTEM"a.dtd">',
    '<!DOCTYPE a PUBLIC "-//A//B">',
    '<!DOCTYPE a PUBLIC "-//A//B""a.dtd">',
    '<!DOCTYPE a SYSTEM "a.dtd"><!DOCTYPE a>',
    '<!DOCTYPE 1>',
    '<!DOCTYPE a&b>',
    '<!DOCTYPE a=b>',
    '<!DOCTYPE a:>',
    '<!DOCTYPE a:b:c>',
    '<!DOCTYPE a SYSTEM "\u0001">',
    '<!DOCTYPE a SYSTEM "\uFFFE">',
    ...Array.from('\t&<>[]{}^~|\\é`', (sign) => `<!DOCTYPE a PUBLIC "${sign}" "">`),
    ...Array.from('\t&<>[]{}^~|\\é`"', (sign) => `<!DOCTYPE a PUBLIC '${sign}' "">`),
    '<!DOCTYPE a [',
    '<!DOCTYPE a []',
    '<!DOCTYPE a [x]>',
    '<!DOCTYPE a []x>',
    '<!DOCTYPE a []x',
    '<!DOCTYPE a [] ',
    '<!DOCTYPE a []]>',
    '<!DOCTYPE a [%p]>',
    '<!DOCTYPE a [% p;]>',
    '<!DOCTYPE a [%p:q;]>',
    '<!DOCTYPE a [<?xml x?>]>',
    '<!DOCTYPE a [] SYSTEM "a.dtd">',
    '<!DOCTYPE a [<!ELEMENT a ANY>]>',
  ]
  expectAll(taken.map((text) => [`${text}<a/>`, A]))
  expectRefused(refused.map((text) => `${text}<a/>`))
})

test('references: accepts five names, and numbers of valid XML characters', () => {
  const taken: [string, string][] = [
    ['&lt;&gt;&amp;&quot;&apos;', `<>&"'`],
    ['x&#65;y&#x42;z', 'xAyBz'],
    ['&#1001;&#x10ab;&#x10AB;', '\u03E9\u10AB\u10AB'],
    ['&#0065;&#x0000000000000000000000041;', 'AA'],
    ['&#32;&#9;&#10;&#13;', ' \t\n\r'],
    ['&#xD7FF;&#xE000;&#xFFFD;&#x10000;&#x10FFFF;', '\uD7FF\uE000\uFFFD\u{10000}\u{10FFFF}'],
    ['\t\r\n', '   '],
  ]
  expectAll(taken.map(([written, value]) => [`<a b="${written}"/>`, ['a', { b: value }, []]]))
  const refused =
    '& &; &LT; &nbsp; &lt &#; &#x; &#xG; &#A; &#0; &#8; &#11; &#12; &#14; &#31; &#xD800; &#xDFFF; &#xFFFE; &#xFFFF; &#x110000; &#99999999999999999999;'
  for (const written of [...refused.split(' '), `&#1${'0'.repeat(30)};`]) {
    expectRefused([`<a b="${written}"/>`, `<a>${written}</a>`])
  }
})

test('entities of an unread DTD are empty in attributes, and refused in content and in standalone documents', () => {
  const attribute = '<a b="x&e;y&é.1;z"/>'
  const dtds = ['<!DOCTYPE a SYSTEM "a.dtd">', '<!DOCTYPE a PUBLIC "" "a.dtd">', '<!DOCTYPE a [%p;]>']
  for (const dtd of dtds) {
    for (const declared of ['', '<?xml version="1.0"?>', '<?xml version="1.0" standalone="no"?>']) {
      expectAll([[`${declared}${dtd}${attribute}`, ['a', { b: 'xyz' }, []]]])
      expectRefused([`${declared}${dtd}<a>&e;</a>`])
    }
    expectRefused([`<?xml version="1.0" standalone="yes"?>${dtd}${attribute}`])
    expectRefused([`<?xml version="1.0" standalone \n=\t'yes'?>${dtd}${attribute}`])
    expectAll([[`<?xml version="yes" encoding="standalone"?>${dtd}${attribute}`, ['a', { b: 'xyz' }, []]]])
    expectRefused(['&e', '&1;', '&p:e;', '& e;'].map((written) => `${dtd}<a b="${written}"/>`))
  }
  expectRefused(['', '<!DOCTYPE a>', '<!DOCTYPE a []>'].map((dtd) => `${dtd}${attribute}`))
  expectRefused(['constructor', '__proto__', 'toString'].map((name) => `<a b="&${name};"/>`))
})

test('names: begin with letters, may contain digits and signs, and the colon separates a prefix', () => {
  const names = ['a', 'A.b-c_1', '_', 'é', 'Ж9', '漢字', 'a\u00B7', 'e\u0301', 'ก\u0E31', 'x٣']
  expectAll(names.map((name) => [`<${name} ${name}="1"/>`, [name, { [name]: '1' }, []]]))
  const refused = [
    '1',
    '-',
    '.',
    '\u00B7',
    '\u0301',
    '٣',
    '×',
    'a×',
    'a÷',
    'a b',
    '\u{10000}',
    'a\u{1F600}',
    ':a',
    'a:',
    'a:b:c',
    '',
  ]
  expectRefused(refused.map((name) => `<${name}/>`))
})

test('attributes: each occurs once, in quotes, with optional blanks around the sign', () => {
  expectAll([
    ['<a b="1"/>', ['a', { b: '1' }, []]],
    ['<a\tb\n=\r"1"\n/>', ['a', { b: '1' }, []]],
    [`<a b = '"' c = "'"></a \t\r\n>`, ['a', { b: '"', c: "'" }, []]],
    ['<a b=">"/>', ['a', { b: '>' }, []]],
  ])
  expectRefused([
    '<a b/>',
    '<a b!"1"/>',
    '<a b=x1x/>',
    '<a b=1/>',
    '<a b="1/>',
    '<a b="1"c="2"/>',
    '<a b="1" b="1"/>',
    '<a b="<"/>',
    '<a b="\u0001"/>',
    '<a / >',
    '<a/',
    '<a b="1"',
  ])
})

test('namespaces: apply to the element and below, the innermost of each prefix, and not to plain attributes', () => {
  expectAll([
    ['<a xmlns="u"/>', ['{u}a', {}, []]],
    ['<a xmlns="u" b="1"><c/></a>', ['{u}a', { b: '1' }, [['{u}c', {}, []]]]],
    ['<a xmlns:p="u" p:b="1"><p:c p:d="2"/></a>', ['a', { '{u}b': '1' }, [['{u}c', { '{u}d': '2' }, []]]]],
    [
      '<a><b xmlns="u"/><c/></a>',
      [
        'a',
        {},
        [
          ['{u}b', {}, []],
          ['c', {}, []],
        ],
      ],
    ],
    [
      '<a><b xmlns="u"></b><c/></a>',
      [
        'a',
        {},
        [
          ['{u}b', {}, []],
          ['c', {}, []],
        ],
      ],
    ],
    [
      '<a xmlns="u"><b xmlns="v"/><c/></a>',
      [
        '{u}a',
        {},
        [
          ['{v}b', {}, []],
          ['{u}c', {}, []],
        ],
      ],
    ],
    ['<a xmlns="u"><b xmlns=""><c/></b></a>', ['{u}a', {}, [['b', {}, [['c', {}, []]]]]]],
    ['<a xmlns:xml="http://www.w3.org/XML/1998/namespace"/>', A],
    ['<a xml:b="1"/>', ['a', { '{http://www.w3.org/XML/1998/namespace}b': '1' }, []]],
  ])
  expectRefused([
    '<p:a/>',
    '<a p:b="1"/>',
    '<a><b xmlns:p="u"/><p:c/></a>',
    '<a><b xmlns:p="u"></b><p:c/></a>',
    '<a xmlns:p="u" xmlns:q="u" p:b="1" q:b="1"/>',
    '<a xmlns:p=""/>',
    '<a xmlns:p="u}"/>',
    '<a xmlns="u}"/>',
    '<a xmlns:xml="u"/>',
    '<a xmlns:xmlns="u"/>',
    '<a xmlns:p="http://www.w3.org/XML/1998/namespace"/>',
    '<a xmlns="http://www.w3.org/XML/1998/namespace"/>',
    '<a xmlns:p="http://www.w3.org/2000/xmlns/"/>',
    '<a xmlns="http://www.w3.org/2000/xmlns/"/>',
  ])
})

test('content: accepts elements among text, comments, instructions and sections, each of them closed', () => {
  const nested: Shape = [
    'a',
    {},
    [
      ['b', {}, []],
      ['c', {}, [['d', {}, []]]],
    ],
  ]
  expectAll([
    ['<a/>', A],
    ['<a></a>', A],
    ['<a>x ]] > &lt; y</a>', A],
    ['<a><b/>x<c>y<d/></c>z</a>', nested],
    ['<a><!-- 1 --><b/><!--2-->x<c><!----><d/></c></a>', nested],
    ['<a><?p?><b/><?p data ? > ?>x<c><?p\tx?><d/></c></a>', nested],
    ['<a><![CDATA[]]><b/><![CDATA[<x> & ]] >]]>x<c><![CDATA[ ]]]]><d/></c></a>', nested],
    ['<!-- 1 --><?p x?>\n<a/>\n<!-- 2 --><?p?> ', A],
  ])
  expectRefused([
    '',
    'x',
    'x<a/>',
    '!a/>',
    '<a/>x',
    '<a/><a/>',
    '<a>',
    '<a><b></a>',
    '<a></b>',
    '<a></a x>',
    '<a></a!',
    '<a><b></b!</a>',
    '</a>',
    '<!-- 1 --><a>x',
    '<a>]]></a>',
    '<a>\uFFFE</a>',
    '<a><!-- x </a>',
    '<a><!-- x -></a>',
    '<a><!-- x -- y --></a>',
    '<a><!-- x ---></a>',
    '<a><!-- \u0001 --></a>',
    '<a><? p?></a>',
    '<a><?p</a>',
    '<a><?p',
    '<a><?p x</a>',
    '<a><?p&?></a>',
    '<a><?p \u0001?></a>',
    '<a><?p:q x?></a>',
    '<a><?xml x?></a>',
    '<a><?XML x?></a>',
    '<a><![CDATA[x</a>',
    '<a><![CDATA[\u0001]]></a>',
    '<a><![cdata[]]></a>',
  ])
})

test('descendants are in document order without the element itself', () => {
  const root = parseXml('<a><b><c/><d/></b><e/><f><g><h/></g></f></a>')
  assert.deepEqual(
    Array.from(descendants(root), ({ tag }) => tag),
    ['b', 'c', 'd', 'e', 'f', 'g', 'h'],
  )
})
