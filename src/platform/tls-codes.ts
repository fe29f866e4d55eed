/** Node's code of a TLS alert in the spelling before OpenSSL 3.5, which renamed some: `ERR_SSL_SSL/TLS_ALERT_…` was `ERR_SSL_SSLV3_ALERT_…`.
 *  Node takes either from the OpenSSL that it was built with. */
export function tlsCode(code: string): string {
  return code.replace('ERR_SSL_SSL/TLS_', 'ERR_SSL_SSLV3_')
}
