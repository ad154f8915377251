"""Small programs that are right, in fences, with changing numbers and names; shell, SQL, JSON, regular expressions."""

import json

from word_problems import NAMES

LANG = {'Python': 'python', 'JavaScript': 'javascript', 'C': 'c', 'Java': 'java', 'Go': 'go', 'Rust': 'rust', 'Ruby': 'ruby'}
SAY = [
    'Here is the code:\n\n',
    'Here it is:\n\n',
    '',
    '',
    'You can write it like this:\n\n',
    'This does it:\n\n',
    'Try this:\n\n',
]


def fence(lang, body, r, after=''):
    return f'{r.choice(SAY)}```{lang}\n{body}\n```' + (f'\n\n{after}' if after and r.random() < 0.6 else '')


def one_line(name, arg, expr):
    """a function of one expression in several languages; expr uses the argument's name"""
    return {
        'Python': f'def {name}({arg}):\n    return {expr}',
        'JavaScript': f'function {name}({arg}) {{\n  return {expr};\n}}',
        'C': f'int {name}(int {arg}) {{\n    return {expr};\n}}',
        'Java': f'static int {name}(int {arg}) {{\n    return {expr};\n}}',
        'Go': f'func {name}({arg} int) int {{\n\treturn {expr}\n}}',
        'Rust': f'fn {name}({arg}: i32) -> i32 {{\n    {expr}\n}}',
        'Ruby': f'def {name}({arg})\n  {expr}\nend',
    }


def two_args(name, expr):
    return {
        'Python': f'def {name}(a, b):\n    return {expr}',
        'JavaScript': f'function {name}(a, b) {{\n  return {expr};\n}}',
        'C': f'int {name}(int a, int b) {{\n    return {expr};\n}}',
        'Java': f'static int {name}(int a, int b) {{\n    return {expr};\n}}',
        'Go': f'func {name}(a, b int) int {{\n\treturn {expr}\n}}',
        'Rust': f'fn {name}(a: i32, b: i32) -> i32 {{\n    {expr}\n}}',
        'Ruby': f'def {name}(a, b)\n  {expr}\nend',
    }


ASK = [
    'Write a {l} function that {w}.',
    'Write a function in {l} that {w}.',
    '{l} function that {w}',
    'Can you write a {l} function that {w}?',
    'I need a {l} function that {w}.',
    'Please write a {l} function which {w}.',
    'Give me a short {l} function that {w}.',
]


def numeric(r):
    k = r.randint(2, 99)
    w, name, arg, expr, after = r.choice(
        [
            (f'adds {k} to a number', f'add_{k}', 'n', f'n + {k}', f'It returns the number plus {k}.'),
            (f'subtracts {k} from a number', f'minus_{k}', 'n', f'n - {k}', f'It returns the number minus {k}.'),
            (f'multiplies a number by {k}', f'times_{k}', 'n', f'n * {k}', f'For 2 it returns {2 * k}.'),
            ('squares a number', 'square', 'n', 'n * n', 'For 4 it returns 16.'),
            ('returns the cube of a number', 'cube', 'n', 'n * n * n', 'For 2 it returns 8.'),
            ('returns the last digit of a positive number', 'last_digit', 'n', 'n % 10', 'For 128 it returns 8.'),
            ('converts hours to minutes', 'hours_to_minutes', 'h', 'h * 60', 'Two hours are 120 minutes.'),
            ('converts days to hours', 'days_to_hours', 'd', 'd * 24', 'Two days are 48 hours.'),
            ('converts metres to centimetres', 'to_centimetres', 'm', 'm * 100', ''),
        ]
    )
    l = r.choice(list(LANG))
    return (
        r.choice(ASK).format(l=l, w=w),
        fence(LANG[l], one_line(name, arg, expr)[l], r, after),
        f'The function takes one number and returns {expr}.',
    )


def pair(r):
    w, name, expr = r.choice(
        [
            ('adds two numbers', 'add', 'a + b'),
            ('subtracts the second number from the first', 'subtract', 'a - b'),
            ('multiplies two numbers', 'multiply', 'a * b'),
            ('returns the area of a rectangle', 'area', 'a * b'),
            ('returns the perimeter of a rectangle', 'perimeter', '2 * (a + b)'),
            ('returns the rest of dividing a by b', 'remainder', 'a % b'),
        ]
    )
    l = r.choice(list(LANG))
    return (
        r.choice(ASK).format(l=l, w=w),
        fence(LANG[l], two_args(name, expr)[l], r),
        f'Two arguments, and the result is {expr}.',
    )


PY = [
    ('checks whether a number is even', 'def is_even(n):\n    return n % 2 == 0'),
    ('checks whether a number is odd', 'def is_odd(n):\n    return n % 2 == 1'),
    ('returns the larger of two numbers', 'def larger(a, b):\n    return a if a > b else b'),
    ('returns the smaller of two numbers', 'def smaller(a, b):\n    return a if a < b else b'),
    (
        'computes the factorial of n',
        'def factorial(n):\n    result = 1\n    for i in range(2, n + 1):\n        result *= i\n    return result',
    ),
    (
        'returns the nth Fibonacci number',
        'def fibonacci(n):\n    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a',
    ),
    ('reverses a string', 'def reverse(s):\n    return s[::-1]'),
    (
        'checks whether a word is a palindrome',
        'def is_palindrome(word):\n    word = word.lower()\n    return word == word[::-1]',
    ),
    ('counts the vowels in a string', 'def count_vowels(s):\n    return sum(c in "aeiouAEIOU" for c in s)'),
    ('counts the words in a text', 'def count_words(text):\n    return len(text.split())'),
    (
        'returns the sum of a list',
        'def total(numbers):\n    result = 0\n    for n in numbers:\n        result += n\n    return result',
    ),
    ('returns the average of a list', 'def average(numbers):\n    return sum(numbers) / len(numbers)'),
    ('removes duplicates from a list and keeps the order', 'def unique(items):\n    return list(dict.fromkeys(items))'),
    ('returns the longest word of a sentence', 'def longest_word(sentence):\n    return max(sentence.split(), key=len)'),
    (
        'checks whether a number is prime',
        'def is_prime(n):\n    if n < 2:\n        return False\n    for i in range(2, int(n ** 0.5) + 1):\n        if n % i == 0:\n            return False\n    return True',
    ),
    (
        'returns the greatest common divisor of two numbers',
        'def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a',
    ),
    ('converts Celsius to Fahrenheit', 'def to_fahrenheit(c):\n    return c * 9 / 5 + 32'),
    ('converts Fahrenheit to Celsius', 'def to_celsius(f):\n    return (f - 32) * 5 / 9'),
    (
        'checks whether a year is a leap year',
        'def is_leap_year(year):\n    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)',
    ),
    (
        'counts how often each word occurs',
        'def word_counts(text):\n    counts = {}\n    for word in text.lower().split():\n        counts[word] = counts.get(word, 0) + 1\n    return counts',
    ),
    ('returns the second largest number of a list', 'def second_largest(numbers):\n    return sorted(set(numbers))[-2]'),
    ('flattens a list of lists', 'def flatten(lists):\n    return [x for inner in lists for x in inner]'),
    ('sums the digits of a number', 'def digit_sum(n):\n    return sum(int(d) for d in str(n))'),
    ('checks whether two words are anagrams', 'def are_anagrams(a, b):\n    return sorted(a.lower()) == sorted(b.lower())'),
    (
        'reads a file and returns its lines',
        'def read_lines(path):\n    with open(path) as f:\n        return f.read().splitlines()',
    ),
    ('writes a text to a file', 'def write_text(path, text):\n    with open(path, "w") as f:\n        f.write(text)'),
    ('returns the even numbers of a list', 'def even_numbers(numbers):\n    return [n for n in numbers if n % 2 == 0]'),
    ('returns the numbers of a list doubled', 'def doubled(numbers):\n    return [2 * n for n in numbers]'),
    ('greets a person by name', 'def greet(name):\n    return f"Hello, {name}!"'),
    ('returns the first n square numbers', 'def squares(n):\n    return [i * i for i in range(1, n + 1)]'),
    ('swaps the keys and values of a dictionary', 'def invert(d):\n    return {v: k for k, v in d.items()}'),
    (
        'finds the largest number of a list without max',
        'def largest(numbers):\n    best = numbers[0]\n    for n in numbers[1:]:\n        if n > best:\n            best = n\n    return best',
    ),
    ('counts how often a letter occurs in a word', 'def count_letter(word, letter):\n    return word.count(letter)'),
    ('returns a list sorted from large to small', 'def sort_down(items):\n    return sorted(items, reverse=True)'),
    ('rounds a number to two decimals', 'def round2(x):\n    return round(x, 2)'),
    ('merges two dictionaries', 'def merge(a, b):\n    return {**a, **b}'),
    ('checks whether a string contains only digits', 'def only_digits(s):\n    return s.isdigit()'),
    ('joins a list of words with commas', 'def join_words(words):\n    return ", ".join(words)'),
    (
        'does a binary search in a sorted list',
        'def binary_search(items, target):\n    low, high = 0, len(items) - 1\n    while low <= high:\n        middle = (low + high) // 2\n        if items[middle] == target:\n            return middle\n        if items[middle] < target:\n            low = middle + 1\n        else:\n            high = middle - 1\n    return -1',
    ),
]
JS = [
    ('checks whether a number is even', 'function isEven(n) {\n  return n % 2 === 0;\n}'),
    ('reverses a string', 'function reverse(s) {\n  return s.split("").reverse().join("");\n}'),
    ('returns the largest number of an array', 'function largest(numbers) {\n  return Math.max(...numbers);\n}'),
    ('sums an array', 'function sum(numbers) {\n  return numbers.reduce((a, b) => a + b, 0);\n}'),
    ('removes duplicates from an array', 'function unique(items) {\n  return [...new Set(items)];\n}'),
    ('counts the words of a text', 'function countWords(text) {\n  return text.trim().split(/\\s+/).length;\n}'),
    (
        'makes the first letter of a word upper case',
        'function capitalize(word) {\n  return word[0].toUpperCase() + word.slice(1);\n}',
    ),
    ('returns a random number from 1 to 6', 'function roll() {\n  return Math.floor(Math.random() * 6) + 1;\n}'),
    ('greets a person', 'function greet(name) {\n  return `Hello, ${name}!`;\n}'),
    ('filters the even numbers of an array', 'function evens(numbers) {\n  return numbers.filter((n) => n % 2 === 0);\n}'),
    ('computes the factorial of n', 'function factorial(n) {\n  return n < 2 ? 1 : n * factorial(n - 1);\n}'),
]


def listed(r):
    l, lst = r.choice([('Python', PY)] * 4 + [('JavaScript', JS)])
    w, body = r.choice(lst)
    return r.choice(ASK).format(l=l, w=w), fence(LANG[l], body, r), f'I write a function that {w}.'


def programs(r):
    a, b = r.randint(1, 10), r.randint(11, 40)
    word = r.choice(['Hello', 'Hello, world!', 'Good evening', 'Welcome', 'Goodbye', 'It works', 'Hi there'])
    n = r.choice(NAMES)
    k = r.randint(2, 12)
    return r.choice(
        [
            (
                f'Write a Python program that prints the numbers from {a} to {b}.',
                'python',
                f'for i in range({a}, {b + 1}):\n    print(i)',
            ),
            (
                f'Print the numbers from {b} down to {a} in Python.',
                'python',
                f'for i in range({b}, {a - 1}, -1):\n    print(i)',
            ),
            (
                f'Write a JavaScript loop that prints the numbers from {a} to {b}.',
                'javascript',
                f'for (let i = {a}; i <= {b}; i++) {{\n  console.log(i);\n}}',
            ),
            (
                f'Write a C program that prints "{word}".',
                'c',
                f'#include <stdio.h>\n\nint main(void) {{\n    printf("{word}\\n");\n    return 0;\n}}',
            ),
            (
                f'Write a Java program that prints "{word}".',
                'java',
                f'public class Main {{\n    public static void main(String[] args) {{\n        System.out.println("{word}");\n    }}\n}}',
            ),
            (
                f'Write a Go program that prints "{word}".',
                'go',
                f'package main\n\nimport "fmt"\n\nfunc main() {{\n\tfmt.Println("{word}")\n}}',
            ),
            (f'Write a Rust program that prints "{word}".', 'rust', f'fn main() {{\n    println!("{word}");\n}}'),
            (f'Write a Python program that prints "{word}" {k} times.', 'python', f'for _ in range({k}):\n    print("{word}")'),
            (
                f'Write a C++ program that prints "{word}".',
                'cpp',
                f'#include <iostream>\n\nint main() {{\n    std::cout << "{word}\\n";\n}}',
            ),
            (
                f'Print the multiplication table of {k} in Python.',
                'python',
                f'for i in range(1, 11):\n    print(i, "x", {k}, "=", i * {k})',
            ),
            (f'Write a bash loop that counts from {a} to {b}.', 'bash', f'for i in $(seq {a} {b}); do\n  echo "$i"\ndone'),
            (
                f'Write a Python program that asks for a name and greets the person.',
                'python',
                'name = input("What is your name? ")\nprint(f"Hello, {name}!")',
            ),
            (
                f'Write a Python program that prints all even numbers up to {b}.',
                'python',
                f'for i in range(2, {b + 1}, 2):\n    print(i)',
            ),
            (
                f'Make a Python list with the squares of 1 to {k}.',
                'python',
                f'squares = [i * i for i in range(1, {k + 1})]\nprint(squares)',
            ),
            (f'Make a Python dictionary with the ages {n} {b} and {r.choice(NAMES)} {b + 3}.', None, None),
        ]
    )


def shell(r):
    f, d, w = (
        r.choice(['notes.txt', 'data.csv', 'log.txt', 'todo.md', 'report.txt']),
        r.choice(['photos', 'backup', 'src', 'docs', 'projects']),
        r.choice(['error', 'hello', 'TODO', 'apple', 'warning']),
    )
    k = r.randint(3, 20)
    return r.choice(
        [
            (f'How do I create a folder called {d} in the terminal?', f'mkdir {d}'),
            (f'How do I delete the file {f} in Linux?', f'rm {f}'),
            (f'How do I copy {f} into the folder {d}?', f'cp {f} {d}/'),
            (f'How do I move {f} into {d}?', f'mv {f} {d}/'),
            (f'How do I show the first {k} lines of {f}?', f'head -n {k} {f}'),
            (f'How do I show the last {k} lines of {f}?', f'tail -n {k} {f}'),
            (f'How do I find lines with "{w}" in {f}?', f'grep "{w}" {f}'),
            (f'How do I count the lines of {f}?', f'wc -l {f}'),
            (f'How do I search for "{w}" in all files of {d}?', f'grep -r "{w}" {d}'),
            (f'How do I find all files named {f}?', f'find . -name "{f}"'),
            (f'How do I see the size of the folder {d}?', f'du -sh {d}'),
            ('How do I see how much disk space is free?', 'df -h'),
            ('How do I see which processes are running?', 'ps aux'),
            (f'How do I make {f.split(".")[0]}.sh executable?', f'chmod +x {f.split(".")[0]}.sh'),
            (f'How do I pack the folder {d} into a tar.gz file?', f'tar czf {d}.tar.gz {d}'),
            (f'How do I unpack {d}.tar.gz?', f'tar xzf {d}.tar.gz'),
            ('How do I show the current directory?', 'pwd'),
            (f'How do I sort the lines of {f}?', f'sort {f}'),
            (f'How do I replace "{w}" by "done" in {f}?', f"sed -i 's/{w}/done/g' {f}"),
            (f'How do I download a file from https://example.com/{f}?', f'curl -O https://example.com/{f}'),
            ('How do I undo my last git commit but keep the changes?', 'git reset --soft HEAD~1'),
            ('How do I create a new git branch called test?', 'git switch -c test'),
            ('How do I see the git history in short form?', 'git log --oneline'),
            (f'How do I add {f} to the next git commit?', f'git add {f}'),
            ('How do I commit in git with a message?', 'git commit -m "Describe the change"'),
            ('How do I see what changed in git?', 'git diff'),
            ('How do I fetch and merge changes from the server in git?', 'git pull'),
        ]
    )


def sql(r):
    t, col, v = r.choice(
        [
            ('customers', 'city', "'Oslo'"),
            ('orders', 'price', '100'),
            ('users', 'age', '30'),
            ('products', 'price', '20'),
            ('employees', 'salary', '3000'),
            ('students', 'grade', '2'),
        ]
    )
    k = r.randint(3, 20)
    return r.choice(
        [
            (f'Write an SQL query that gets all rows of the table {t}.', f'SELECT * FROM {t};'),
            (f'Write an SQL query that counts the rows of {t}.', f'SELECT COUNT(*) FROM {t};'),
            (f'Write an SQL query that gets the first {k} rows of {t}.', f'SELECT * FROM {t} LIMIT {k};'),
            (f'Write an SQL query that gets the rows of {t} where {col} is {v}.', f'SELECT * FROM {t} WHERE {col} = {v};'),
            (f'Write an SQL query that sorts {t} by {col}.', f'SELECT * FROM {t} ORDER BY {col};'),
            (f'Write an SQL query for the different values of {col} in {t}.', f'SELECT DISTINCT {col} FROM {t};'),
            (
                f'Write an SQL query that gives the number of {t} for each {col}.',
                f'SELECT {col}, COUNT(*) FROM {t} GROUP BY {col};',
            ),
            (f'Write an SQL statement that deletes the rows of {t} where {col} is {v}.', f'DELETE FROM {t} WHERE {col} = {v};'),
            (f'Write an SQL query that finds the highest {col} in {t}.', f'SELECT MAX({col}) FROM {t};'),
        ]
    )


def data(r):
    n, a, c = r.choice(NAMES), r.randint(18, 80), r.choice(['Oslo', 'Rome', 'Lima', 'Cairo', 'Berlin'])
    d = r.choice(
        [
            dict(name=n, age=a),
            dict(name=n, city=c),
            dict(name=n, age=a, city=c),
            dict(title='The ' + r.choice(['River', 'Garden', 'Tower', 'Journey']), author=n, year=1900 + a),
            dict(product=r.choice(['lamp', 'chair', 'book']), price=a, currency='EUR'),
            dict(city=c, temperature=a % 30, unit='C'),
        ]
    )
    desc = ', '.join(f'{k} {v}' for k, v in d.items())
    q = r.choice(
        [
            f'Make a JSON object with {desc}.',
            f'Write this as JSON: {desc}',
            f'Give me JSON for: {desc}',
            f'Turn into JSON: {desc}.',
            f'Answer only with JSON: {desc}',
        ]
    )
    t = json.dumps(d, indent=2 if r.random() < 0.6 else None, ensure_ascii=False)
    return q, t if 'only' in q or r.random() < 0.3 else f'```json\n{t}\n```', f'The keys are {", ".join(d)}.'


HTML = [
    ('a link to https://example.com with the text "Home"', '<a href="https://example.com">Home</a>'),
    ('a heading that says "Welcome"', '<h1>Welcome</h1>'),
    ('an unordered list with tea, coffee and milk', '<ul>\n  <li>tea</li>\n  <li>coffee</li>\n  <li>milk</li>\n</ul>'),
    ('a button with the text "Send"', '<button type="submit">Send</button>'),
    ('an image cat.jpg with a text for screen readers', '<img src="cat.jpg" alt="A cat">'),
    ('a text field for a name', '<label for="name">Name</label>\n<input type="text" id="name" name="name">'),
    ('a table with one row and two columns', '<table>\n  <tr>\n    <td>one</td>\n    <td>two</td>\n  </tr>\n</table>'),
    ('a paragraph with bold text', '<p><strong>This is bold.</strong></p>'),
]


def explain(r):
    a, b, k = r.randint(1, 20), r.randint(1, 20), r.randint(2, 6)
    q, out, why = r.choice(
        [
            (f'print({a} + {b})', str(a + b), f'{a} + {b} = {a + b}'),
            (f'print({a} * {k})', str(a * k), f'{a} x {k} = {a * k}'),
            (f'print(len("{r.choice(["tea", "house", "garden", "window"])}"))', None, ''),
            (f'for i in range({k}):\n    print(i)', '\n'.join(map(str, range(k))), f'range({k}) goes from 0 to {k - 1}'),
            (f'x = {a}\nx += {b}\nprint(x)', str(a + b), f'x is {a}, then {a} + {b} = {a + b}'),
            (f'print("ab" * {k})', 'ab' * k, f'the string is repeated {k} times'),
            (f'print([{a}, {b}, {k}][1])', str(b), 'index 1 is the second element'),
            (f'print({a} > {b})', str(a > b), f'{a} is {"" if a > b else "not "}greater than {b}'),
            (f'print({a + b} // {k})', str((a + b) // k), 'this is division without the rest'),
        ]
    )
    if out is None:
        w = q.split('"')[1]
        out, why = str(len(w)), f'"{w}" has {len(w)} letters'
    return (
        f'What does this Python code print?\n\n```python\n{q}\n```',
        f'It prints:\n\n```\n{out}\n```' if '\n' in out else f'It prints {out}.',
        f'{why[0].upper() + why[1:]}. So the output is {out.replace(chr(10), ", ")}.',
    )


def code_task(r):
    """-> question, answer, thought"""
    k = r.random()
    if k < 0.16:
        return numeric(r)
    if k < 0.24:
        return pair(r)
    if k < 0.50:
        return listed(r)
    if k < 0.64:
        q, lang, body = programs(r)
        while body is None:
            q, lang, body = programs(r)
        return q, fence(lang, body, r), 'A short program is enough.'
    if k < 0.76:
        q, cmd = shell(r)
        if r.random() < 0.3:
            q = q.replace(
                'How do I', r.choice(['Which command do I use to', 'What is the command to', 'Tell me how to'])
            ).replace('?', '.' if 'Tell' in q else '?')
        return (
            q,
            r.choice(
                [
                    f'```bash\n{cmd}\n```',
                    f'Use `{cmd.split()[0]}`:\n\n```bash\n{cmd}\n```',
                    f'Run this command:\n\n```bash\n{cmd}\n```',
                    f'`{cmd}`',
                ]
            ),
            f'The command {cmd.split()[0]} does this.',
        )
    if k < 0.83:
        q, s = sql(r)
        return q, f'```sql\n{s}\n```', 'One statement is enough.'
    if k < 0.92:
        return data(r)
    if k < 0.95:
        w, body = r.choice(HTML)
        return (
            r.choice([f'Write the HTML for {w}.', f'HTML for {w}, please.', f'How do I write {w} in HTML?']),
            f'```html\n{body}\n```',
            '',
        )
    return explain(r)
