import assert from 'node:assert/strict'
import { test } from 'node:test'

import { isPublicAddress, nat64PrefixesOf } from './public-address.ts'

test('addresses of the public internet', () => {
  for (const address of ['1.1.1.1', '151.101.0.223', '172.15.0.1', '172.32.0.1', '2a04:4e42::223', '2606:4700::1111']) {
    assert.equal(isPublicAddress(address), true, address)
  }
})

test('addresses of this machine and its networks are never public', () => {
  const about = { mac: '02:00:00:00:00:01', internal: false }
  const v4 = { ...about, family: 'IPv4', address: '93.184.215.14', netmask: '255.255.255.240' } as const
  const v6 = {
    ...about,
    family: 'IPv6',
    address: '2a04:4e42:0:1::7',
    netmask: 'ffff:ffff:ffff:ffff::',
    scopeid: 0,
  } as const
  const interfaces = {
    eth0: [
      { ...v4, cidr: '93.184.215.14/28' },
      { ...v6, cidr: '2a04:4e42:0:1::7/64' },
    ],
    // Without a usable mask an interface names its address alone.
    tun0: [{ ...v4, address: '151.101.0.223', cidr: null }],
  }
  for (const address of [
    '93.184.215.14',
    '93.184.215.1',
    '2a04:4e42:0:1::7',
    '2a04:4e42:0:1:ffff::1',
    '151.101.0.223',
  ]) {
    assert.equal(isPublicAddress(address, { interfaces }), false, address)
  }
  for (const address of ['93.184.215.16', '2a04:4e42:0:2::7', '151.101.0.222']) {
    assert.equal(isPublicAddress(address, { interfaces }), true, address)
  }
})

test('loopback, private, link-local, metadata, shared, translated, multicast and reserved addresses are not public', () => {
  const inside = [
    '127.0.0.1',
    '127.9.9.9',
    '0.0.0.0',
    '10.1.2.3',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '169.254.169.254',
  ]
  const special = ['100.64.0.1', '198.18.0.1', '192.0.2.1', '224.0.0.1', '240.0.0.1', '255.255.255.255']
  const v6 = [
    '::',
    '::1',
    '::ffff:127.0.0.1',
    '::ffff:1.1.1.1',
    'fe80::1',
    'fd00::1',
    'ff02::1',
    '64:ff9b::7f00:1',
    '2002:7f00:1::',
    '2001:db8::1',
    '2001::1',
  ]
  for (const address of [...inside, ...special, ...v6, 'localhost', '', '1.1.1']) {
    assert.equal(isPublicAddress(address), false, address)
  }
})

/** RFC 6052, 2.4: 192.0.2.33 below each length of prefix, and what RFC 7050 has a name server answer for `ipv4only.arpa`. */
const EMBEDDED: [prefix: number, answer: string, ofPrivate: string, ofPublic: string][] = [
  [32, '2a01:db8:c000:aa::', '2a01:db8:a00:1::', '2a01:db8:5db8:d70e::'],
  [40, '2a01:db8:1c0:0:aa::', '2a01:db8:10a:0:1::', '2a01:db8:15d:b8d7:e::'],
  [48, '2a01:db8:122:c000:0:aa00::', '2a01:db8:122:a00:0:100::', '2a01:db8:122:5db8:d7:e00::'],
  [56, '2a01:db8:122:3c0:0:aa::', '2a01:db8:122:30a:0:1::', '2a01:db8:122:35d:b8:d70e::'],
  [64, '2a01:db8:122:344:c0:0:aa00::', '2a01:db8:122:344:a:0:100::', '2a01:db8:122:344:5d:b8d7:e00::'],
  [96, '2a01:db8:122:344::192.0.0.170', '2a01:db8:122:344::10.0.0.1', '2a01:db8:122:344::93.184.215.14'],
]

for (const [length, answer, ofPrivate, ofPublic] of EMBEDDED) {
  test(`NAT64 below a prefix of ${length} bits: an address counts as the embedded IPv4 address`, () => {
    assert.equal(isPublicAddress(ofPrivate), true, 'without the prefix it counts as an ordinary address')
    const nat64 = nat64PrefixesOf([answer])
    assert.ok(
      nat64.some((prefix) => prefix.length === length),
      JSON.stringify(nat64),
    )
    assert.deepEqual(
      [ofPrivate, ofPublic, '2606:4700::1111'].map((address) => isPublicAddress(address, { nat64 })),
      [false, true, true],
    )
  })
}

test('NAT64: addresses that embed this machine’s networks or the well-known prefix are not public', () => {
  const about = { mac: '02:00:00:00:00:01', internal: false, netmask: '255.255.255.0' }
  const eth0 = [{ ...about, family: 'IPv4', address: '93.184.215.1', cidr: '93.184.215.1/24' } as const]
  const nat64 = nat64PrefixesOf(['2a01:db8::192.0.0.171', '64:ff9b::192.0.0.170'])
  assert.equal(isPublicAddress('2a01:db8::93.184.215.14', { interfaces: { eth0 }, nat64 }), false)
  assert.equal(isPublicAddress('2a01:db8::1.1.1.1', { interfaces: { eth0 }, nat64 }), true)
  assert.equal(isPublicAddress('64:ff9b::1.1.1.1', { nat64 }), false)
})

test('answers for ipv4only.arpa that embed neither of its two addresses give no prefix', () => {
  assert.deepEqual(nat64PrefixesOf(['192.0.0.170', '2606:4700::1111', '2a01:db8::192.0.0.172', 'x']), [])
})
