"""The problems, their text, and the split between training and test.

A record is plain text, one byte per token:

    Q: 417+86=?\nA: 503\n              an answer
    Q: 417+86=?\nA: 513\nOK? no\n      the grading of an answer

Differences may be negative: ``12-45`` is ``-33``.
"""

import random

BOS, EOS, PAD = 256, 257, 258
NO_TARGET = -100  # the value that torch's cross_entropy ignores

HELD_OUT_EVERY = 32


def solve(a, op, b):
    return a + b if op == "+" else a - b


def is_held_out(a, op, b):
    """Whether a problem is kept for tests. a+b and b+a always fall on the same side."""
    if op == "+" and a > b:
        a, b = b, a
    x = a * 2000003 + b * 2 + (op == "-")
    # The finaliser of splitmix64: neighbouring problems fall on unrelated sides.
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    x ^= x >> 31
    return x % HELD_OUT_EVERY == 0


def _operands(rng):
    """Half the pairs have uniform digit counts, half are uniform over 0..999.

    The first half teaches short and uneven operands, the second the many pairs of three digits."""
    if rng.random() < 0.5:
        return rng.randrange(1000), rng.randrange(1000)
    return tuple(rng.randrange(*rng.choice(((0, 10), (10, 100), (100, 1000)))) for _ in range(2))


def sample_problem(rng, held_out, op=None):
    """A problem (a, op, b) of the wanted side of the split."""
    chosen = op or rng.choice("+-")
    while True:
        a, b = _operands(rng)
        if is_held_out(a, chosen, b) == held_out:
            return a, chosen, b


def _without_carry(a, op, b):
    """The result of someone who forgets every carry or borrow."""
    if op == "-" and a < b:
        return -_without_carry(b, op, a)
    total, place = 0, 1
    while a or b:
        total += solve(a % 10, op, b % 10) % 10 * place
        a, b, place = a // 10, b // 10, place * 10
    return total


def wrong_answer(rng, a, op, b):
    """The text of a wrong answer: mostly a near miss, sometimes anything."""
    right = solve(a, op, b)
    text = str(right)
    while True:
        kind = rng.randrange(8)
        digits = list(text)
        at = rng.randrange(right < 0, len(digits))
        if kind <= 1:  # one digit is another
            digits[at] = rng.choice("0123456789")
            wrong = "".join(digits)
        elif kind == 2:  # a carry too many or too few
            wrong = str(right + rng.choice((-1, 1)) * rng.choice((1, 10, 100)))
        elif kind == 3:  # every carry forgotten
            wrong = str(_without_carry(a, op, b))
        elif kind == 4:  # two neighbours swapped
            if at + 1 < len(digits):
                digits[at], digits[at + 1] = digits[at + 1], digits[at]
            wrong = "".join(digits)
        elif kind == 5:  # a digit lost, or one written twice
            digits[at : at + 1] = rng.choice(([], [digits[at]] * 2))
            wrong = "".join(digits)
        elif kind == 6:  # the wrong sign, or the other operation
            wrong = str(rng.choice((-right, solve(a, "-" if op == "+" else "+", b))))
        else:
            wrong = str(rng.randrange(-999, 1000) if op == "-" else rng.randrange(1999))
        if wrong not in ("", "-", text, "-" + text) and str(int(wrong)) == wrong:
            return wrong


def question_text(a, op, b):
    return f"Q: {a}{op}{b}=?\nA:"


def answer_text(answer):
    return f" {answer}\n"


GRADING_TEXT = "OK?"


def verdict_text(is_right):
    return " yes\n" if is_right else " no\n"


def _add(pairs, text, target_after=NO_TARGET):
    """Append text without targets inside; target_after is what its last byte should predict."""
    data = text.encode()
    pairs.extend((byte, NO_TARGET) for byte in data[:-1])
    pairs.append((data[-1], target_after))


def _add_learnt(pairs, shown, wanted):
    """Append shown; each byte of wanted is a target for as long as shown agrees with it."""
    shown, wanted = shown.encode(), wanted.encode()
    agree = True
    for byte, goal in zip(shown, wanted + b" " * len(shown)):
        pairs[-1] = (pairs[-1][0], goal if agree else NO_TARGET)
        pairs.append((byte, NO_TARGET))
        agree = agree and byte == goal
    # A finished line ends the generation, whatever it says; a prompt may still go on after it.
    pairs[-1] = (shown[-1], EOS)


def training_row(rng, problems, graded_share):
    """One row of (token, target) pairs: BOS and one to several problems, some of them graded.

    Targets are the right answer (also at the first byte where a wrong answer leaves it), the
    verdict and EOS; questions and the grading prompt carry no loss."""
    pairs = [(BOS, NO_TARGET)]
    for _ in range(problems):
        a, op, b = sample_problem(rng, held_out=False)
        right = str(solve(a, op, b))
        graded = rng.random() < graded_share
        shown = wrong_answer(rng, a, op, b) if graded and rng.random() < 0.5 else right
        _add(pairs, question_text(a, op, b))
        _add_learnt(pairs, answer_text(shown), answer_text(right))
        if graded:
            _add(pairs, GRADING_TEXT)
            _add_learnt(pairs, verdict_text(shown == right), verdict_text(shown == right))
    return pairs


def held_out_problems(op, count, seed=1):
    """Distinct held-out problems in a fixed order: (prompt, expected text)."""
    rng = random.Random(seed)
    chosen = {}
    while len(chosen) < count:
        problem = sample_problem(rng, held_out=True, op=op)
        chosen[question_text(*problem)] = answer_text(solve(*problem))
    return list(chosen.items())


def held_out_gradings(count, seed=2):
    """Distinct held-out gradings, half of them of right answers: (prompt, expected text)."""
    rng = random.Random(seed)
    chosen = {}
    while len(chosen) < count:
        problem = sample_problem(rng, held_out=True)
        is_right = len(chosen) % 2 == 0
        answer = str(solve(*problem)) if is_right else wrong_answer(rng, *problem)
        prompt = question_text(*problem) + answer_text(answer) + GRADING_TEXT
        chosen.setdefault(prompt, verdict_text(is_right))
    return list(chosen.items())
