import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isLonghaulError } from '../../../contracts/errors.ts'
import { encodeKey, namesBucket, parseS3Location } from './s3-location.ts'
import { escapeXml, listedTexts, textsOf, unescapeXml } from './s3-xml.ts'

test('a directory is never taken for a bucket, and other addresses are refused', () => {
  for (const path of ['/data', 'data', './s3:/x', 's3:bucket', 'a:b']) assert.equal(namesBucket(path), false, path)
  assert.equal(namesBucket('s3://bucket'), true)
  for (const text of ['gs://bucket', 'https://s3.test/bucket', 'file:///data', 'S3://bucket'])
    assert.throws(() => namesBucket(text), { code: 'Config.Invalid' }, text)
})

test('Amazon’s own endpoint has the bucket in the host name, others have it in the path', () => {
  const base = (text: string, env: NodeJS.ProcessEnv) => parseS3Location(text, env).base
  assert.equal(base('s3://lab', { AWS_REGION: 'eu-west-1' }), 'https://lab.s3.eu-west-1.amazonaws.com')
  assert.equal(base('s3://lab', { AWS_DEFAULT_REGION: 'cn-north-1' }), 'https://lab.s3.cn-north-1.amazonaws.com.cn')
  assert.equal(base('s3://lab.x', {}), 'https://s3.us-east-1.amazonaws.com/lab.x')
  assert.equal(base('s3://lab', { AWS_ENDPOINT_URL: 'http://minio:9000/' }), 'http://minio:9000/lab')
  const both = { AWS_ENDPOINT_URL: 'http://other', AWS_ENDPOINT_URL_S3: 'https://s3.test/gateway/' }
  assert.equal(base('s3://lab', both), 'https://s3.test/gateway/lab')
})

test('prefixes end with one slash', () => {
  for (const [text, prefix] of [
    ['s3://lab', ''],
    ['s3://lab/', ''],
    ['s3://lab/a/b//', 'a/b/'],
  ] as const)
    assert.equal(parseS3Location(text, {}).prefix, prefix)
})

test('an invalid bucket or prefix is refused and not repeated, since it may contain a key', () => {
  for (const text of [
    's3://',
    's3://UP',
    's3://a',
    's3://id:secret-key@bucket/x',
    's3://lab/../x',
    's3://lab/a//b',
    's3://lab//secret-key',
    's3://a..b',
  ])
    assert.throws(
      () => parseS3Location(text, {}),
      (error) =>
        isLonghaulError(error) &&
        error.code === 'Config.Invalid' &&
        error.message.includes('LONGHAUL_ARTIFACTS') &&
        !error.message.includes('secret-key'),
      text,
    )
  assert.throws(() => parseS3Location('s3://lab', { AWS_ENDPOINT_URL: 'nowhere' }), { code: 'Config.Invalid' })
  assert.throws(() => parseS3Location('s3://lab', { AWS_ENDPOINT_URL: 'ftp://x' }), { code: 'Config.Invalid' })
})

test('an endpoint with a password, and a region that is none, are refused and not repeated', () => {
  for (const [name, value] of [
    ['AWS_ENDPOINT_URL_S3', 'http://id:secret-key@minio:9000'],
    ['AWS_ENDPOINT_URL', 'http://minio:9000/?key=secret-key'],
    ['AWS_REGION', 'secret-key\nus'],
    ['AWS_DEFAULT_REGION', 'eu.west/secret-key'],
  ] as const) {
    assert.throws(
      () => parseS3Location('s3://lab', { [name]: value }),
      (error) =>
        isLonghaulError(error) &&
        error.code === 'Config.Invalid' &&
        error.message.includes(name.slice(-6)) &&
        !error.message.includes('secret-key'),
      name,
    )
  }
})

test('keys are encoded as the signature requires', () => {
  assert.equal(encodeKey("a b/c+d/ü/(1)!*'~"), 'a%20b/c%2Bd/%C3%BC/%281%29%21%2A%27~')
})

test('XML: elements keep their order, an unclosed one is ignored, and keys are decoded', () => {
  assert.deepEqual(textsOf('<a><Key>x</Key><Key/><Key>y%2Fz</Key><Key>cut', 'Key'), ['x', 'y%2Fz'])
  assert.equal(listedTexts('<EncodingType>url</EncodingType>')('a+b%2Bc%20d'), 'a b+c d')
  assert.equal(listedTexts('<Name>x</Name>')('a+b%2Bc&amp;lt;&#39;&#x2F;&nope;'), "a+b%2Bc&lt;'/&nope;")
  for (const text of [`a&b<c>"d"'`, '&amp;']) assert.equal(unescapeXml(escapeXml(text)), text)
})
