import { issueMessage } from '../observation.ts'

const STATEMENT = 'The script primes.py should print all primes below 20, one on each line. It does not exist yet.'

/**
 * One complete short session as text, appended to the system prompt only while a base policy collects RFT data; trained policies work
 * without it. The environment's lines are the output of the real tools: a test plays the session in a sandbox.
 */
export const DEMONSTRATION = `DEMONSTRATION
What follows is one complete session, to show the form. The files in it are not part of your repository.

<environment>
${issueMessage(STATEMENT)}

(Current directory: /testbed, current file: none) bash-$
</environment>
<agent>
There is no such script, so I begin by making the file.
\`\`\`command
create primes.py
\`\`\`
</agent>
<environment>
[File: /testbed/primes.py (1 lines total)]
1:

(Current directory: /testbed, current file: /testbed/primes.py) bash-$
</environment>
<agent>
I write a test by division up to the square root, and a loop over the numbers below 20.
\`\`\`command
edit 1:1 << 'EOF'
def is_prime(number):
    for divisor in range(2, int(number**0.5)):
        if number % divisor == 0:
            return False
    return number > 1


for candidate in range(20):
    if is_prime(candidate):
        print(candidate)
EOF
\`\`\`
</agent>
<environment>
File updated. Check indentation and repeated lines.
[File: /testbed/primes.py (10 lines total)]
1:def is_prime(number):
2:    for divisor in range(2, int(number**0.5)):
3:        if number % divisor == 0:
4:            return False
5:    return number > 1
6:
7:
8:for candidate in range(20):
9:    if is_prime(candidate):
10:        print(candidate)

(Current directory: /testbed, current file: /testbed/primes.py) bash-$
</environment>
<agent>
Indentation and lines look right. I run it.
\`\`\`command
python3 primes.py | paste -s -d ' '
\`\`\`
</agent>
<environment>
2 3 4 5 6 7 8 9 11 13 15 17 19

(Current directory: /testbed, current file: /testbed/primes.py) bash-$
</environment>
<agent>
4, 6, 8, 9 and 15 are no primes. The range leaves out the square root itself: its end has to be one higher. That is line 2.
\`\`\`command
edit 2:2 "    for divisor in range(2, int(number**0.5) + 1):"
\`\`\`
</agent>
<environment>
File updated. Check indentation and repeated lines.
[File: /testbed/primes.py (10 lines total)]
1:def is_prime(number):
2:    for divisor in range(2, int(number**0.5) + 1):
3:        if number % divisor == 0:
4:            return False
5:    return number > 1
6:
7:
8:for candidate in range(20):
9:    if is_prime(candidate):
10:        print(candidate)

(Current directory: /testbed, current file: /testbed/primes.py) bash-$
</environment>
<agent>
\`\`\`command
python3 primes.py | paste -s -d ' '
\`\`\`
</agent>
<environment>
2 3 5 7 11 13 17 19

(Current directory: /testbed, current file: /testbed/primes.py) bash-$
</environment>
<agent>
The checklist:
1. I saw the error: composite numbers were printed.
2. It is gone: the output is exactly the primes below 20.
3. Edge cases: 0 and 1 are refused by the last line of the function, 2 and 3 have no divisor to try, squares such as 4 and 9 are now found.
4. No existing test touches this new script.
I submit.
\`\`\`command
submit
\`\`\`
</agent>`
