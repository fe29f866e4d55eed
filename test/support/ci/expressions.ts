/** Expressions of GitHub Actions, as far as this repository's files use them: contexts, strings, `==`, `!=`, `&&`, `||`, `!`,
 *  brackets, status functions. */

export interface ExpressionScope {
  /** `github`, `inputs`, `steps`, … */
  contexts: Record<string, unknown>
  /** Whether any step has failed so far. */
  failed: boolean
}

type Value = unknown

/** Replaces `${{ … }}` in a text. */
export function interpolate(text: string, scope: ExpressionScope): string {
  return text.replace(/\$\{\{(.*?)\}\}/gs, (_, expression: string) => show(evaluate(expression, scope)))
}

/** An `if:`, with or without its braces; without a status function it also requires success. */
export function isMet(condition: string | undefined, scope: ExpressionScope): boolean {
  if (condition === undefined) return !scope.failed
  const expression = condition.replace(/^\s*\$\{\{(.*)\}\}\s*$/s, '$1')
  const asksForStatus = /\b(always|success|failure|cancelled)\(\)/.test(expression)
  return isTrue(evaluate(expression, scope)) && (asksForStatus || !scope.failed)
}

function evaluate(expression: string, scope: ExpressionScope): Value {
  const tokens = expression.match(/'(?:[^']|'')*'|==|!=|&&|\|\||[!()]|[A-Za-z_][\w.-]*/g) ?? []
  if (tokens.join('') !== expression.replace(/\s+(?=(?:[^']*'[^']*')*[^']*$)/g, '')) {
    throw new Error(`Expected an expression that this runner knows, got ${JSON.stringify(expression)}`)
  }
  const value = readOr()
  if (tokens.length > 0) throw new Error(`Expected the end of ${JSON.stringify(expression)}, got ${tokens[0]}`)
  return value

  function readOr(): Value {
    let left = readAnd()
    while (tokens[0] === '||') {
      tokens.shift()
      const right = readAnd()
      left = isTrue(left) ? left : right
    }
    return left
  }
  function readAnd(): Value {
    let left = readEqual()
    while (tokens[0] === '&&') {
      tokens.shift()
      const right = readEqual()
      left = isTrue(left) ? right : left
    }
    return left
  }
  function readEqual(): Value {
    const left = readOne()
    const [operator] = tokens
    if (operator !== '==' && operator !== '!=') return left
    tokens.shift()
    return (show(left).toLowerCase() === show(readOne()).toLowerCase()) === (operator === '==')
  }
  function readOne(): Value {
    const token = tokens.shift()
    if (token === undefined) throw new Error(`Expected more of ${JSON.stringify(expression)}`)
    if (token === '!') return !isTrue(readOne())
    if (token === '(') {
      const inner = readOr()
      tokens.shift()
      return inner
    }
    if (token.startsWith("'")) return token.slice(1, -1).replaceAll("''", "'")
    if (tokens[0] === '(') {
      tokens.splice(0, 2)
      return statusOf(token, scope.failed)
    }
    return token
      .split('.')
      .reduce<Value>((value, key) => (value as Record<string, Value> | undefined)?.[key], scope.contexts)
  }
}

function statusOf(name: string, failed: boolean): boolean {
  switch (name) {
    case 'always':
      return true
    case 'success':
      return !failed
    case 'failure':
      return failed
    case 'cancelled':
      return false
    default:
      throw new Error(`Expected a function that this runner knows, got ${name}()`)
  }
}

function isTrue(value: Value): boolean {
  return value === true || (typeof value === 'string' && value !== '')
}

function show(value: Value): string {
  return typeof value === 'string' ? value : value === undefined || value === null ? '' : JSON.stringify(value)
}
