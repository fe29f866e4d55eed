/** Texts that attack the program that shows them. A successful attack sets a title or sends a request. */
export const HOSTILE = [
  '<script>document.title="owned"</script>',
  '<img src=x onerror="document.title=\'owned\'">',
  '"><svg onload=document.title="owned">',
  '</textarea></pre></code></style></script><script>document.title="owned"</script>',
  '<a href="javascript:document.title=`owned`">click</a>',
  '<base href="http://evil.example/"><meta http-equiv="refresh" content="0;url=http://evil.example/">',
  '<iframe src="http://evil.example/"></iframe>',
  '&lt;not markup&gt; {{7*7}} ${document.title="owned"}',
  '\u001b[2J\u001b[31mred\u001b[0m \u001b]0;owned\u0007 \u001b]8;;http://evil.example/\u001b\\link\u001b]8;;\u001b\\',
  'access \u202e\u2066// check\u2069 \u2066admin\u202c\u200b\ufeff',
  'line \u2028 separator \u2029 paragraph, \u0000 null, \u0008 back, \r return',
  `--- a/x\n+++ b/x\n@@ -1 +1 @@\n-<script>document.title="owned"</script>\n+</script><script>document.title="owned"</script>`,
].join('\n')
