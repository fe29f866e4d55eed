"""Lines made of the regular expressions that stand in a parser: what its patterns take, and what they nearly take."""

import random
import re
import warnings
from re import _constants as kinds
from re import _parser as patterns

SPACES = " \t\v\x1c\x1f\x85\xa0\u1680\u2003\u2028\u3000"
DIGITS = "0123456789\u0660\u0661１９\U0001d7d8"
NO_NUMBERS = "²①"
WORD = "abXYZ_019é日\u0661²"
# What attackers put between the parts: signs of other patterns, letters of two cases, white space of one language alone.
PARTS = [
    *"[](){}<>\"'`:;.-_=#|\\/*%$^+~,?!&@ ",
    *["::", ":::", "...", "--", " - ", "  ", "\t", "\ufeff", "\u200b", "\0"],
    *["İ", "ı", "ſ", "\u212a", "ß", "ς", "\u0307", "\U0001f600", "é"],
    *["0", "1", "000", "1e400", "12ms", "(12ms)", "[1.5s]", "NaN"],
    *["__proto__", "constructor", "a", "test_a", "/a/b.dart", "\x1b[31m", "\x1b[0m", "[31m"],
]
MOST_REPEATS = 6


def lines_of(texts: list[str], count: int) -> list[str]:
    """`count` lines for a parser in which these texts stand; the same each time."""
    dice = random.Random("\n".join(texts))
    trees = [tree for tree in map(parsed, texts) if tree is not None]
    return [] if trees == [] else [one_line(dice, trees) for _ in range(count)]


def parsed(text: str):
    if re.search(r"\\[dswS.(\[]|[$^]|\(\?|\.[*+]", text) is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return patterns.parse(text)
        except re.error:
            return None


def one_line(dice: random.Random, trees: list) -> str:
    line = made(dice, dice.choice(trees), {})
    if dice.random() < 0.3:
        line += dice.choice(["", " ", "  "]) + made(dice, dice.choice(trees), {})
    for _ in range(dice.choice([0, 0, 1, 1, 2, 3])):
        line = changed(dice, line)
    return line


def changed(dice: random.Random, line: str) -> str:
    start = dice.randrange(len(line) + 1)
    end = min(len(line), start + dice.choice([0, 1, 1, 2, 3, 8]))
    part = line[start:end]
    return line[:start] + dice.choice([dice.choice(PARTS) + part, "", part + part, part.upper(), part[::-1]]) + line[end:]


def made(dice: random.Random, tree, groups: dict) -> str:
    return "".join(node(dice, kind, value, groups) for kind, value in tree)


def node(dice: random.Random, kind, value, groups: dict) -> str:
    if kind == kinds.LITERAL:
        return chr(value)
    if kind in (kinds.ANY, kinds.NOT_LITERAL):
        return any_character(dice)
    if kind == kinds.IN:
        return of_class(dice, value)
    if kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT):
        least, most, part = value
        times = dice.choice([least, least, least + 1, dice.randint(least, least + MOST_REPEATS)])
        return "".join(made(dice, part, groups) for _ in range(min(times, int(most))))
    if kind == kinds.SUBPATTERN:
        groups[value[0]] = made(dice, value[3], groups)
        return groups[value[0]]
    if kind == kinds.BRANCH:
        return made(dice, dice.choice(value[1]), groups)
    return groups.get(value, "") if kind == kinds.GROUPREF else ""


def of_class(dice: random.Random, members: list) -> str:
    if members[0][0] == kinds.NEGATE:
        return any_character(dice)
    kind, value = dice.choice(members)
    if kind == kinds.LITERAL:
        return chr(value)
    if kind == kinds.RANGE:
        return chr(dice.randint(*value))
    characters = {kinds.CATEGORY_SPACE: SPACES, kinds.CATEGORY_DIGIT: DIGITS, kinds.CATEGORY_WORD: WORD}.get(value)
    return any_character(dice) if characters is None else dice.choice(characters[0] * len(characters) + characters)


def any_character(dice: random.Random) -> str:
    return dice.choice([dice.choice("abxyzTest_ "), dice.choice(PARTS), dice.choice(SPACES), dice.choice(DIGITS + NO_NUMBERS)])
