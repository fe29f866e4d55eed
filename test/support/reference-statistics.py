"""Reference values for src/domain/statistics/reference-statistics.test.ts, from SciPy, statsmodels and NumPy.

    python3 -m venv env && env/bin/pip install scipy==1.17.1 statsmodels==0.15.0 numpy==2.4.6
    env/bin/python test/support/reference-statistics.py > test/support/reference-statistics.json

Closed forms are the libraries' own functions. The bootstraps are written a second time from their description: the same
generator of uniform numbers (mulberry32) gives the same resample indices, so the intervals must be equal to the last digit.
"""

import json
import sys

import numpy
import scipy
import statsmodels
from scipy import special, stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint

SEED = 20261121


def uniform(seed: int):
    """mulberry32: uniform numbers in [0, 1)."""
    state = seed & 0xFFFFFFFF

    def imul(a: int, b: int) -> int:
        return (a * b) & 0xFFFFFFFF

    while True:
        state = (state + 0x6D2B79F5) & 0xFFFFFFFF
        mixed = imul(state ^ (state >> 15), state | 1)
        mixed ^= (mixed + imul(mixed ^ (mixed >> 7), mixed | 61)) & 0xFFFFFFFF
        yield ((mixed ^ (mixed >> 14)) & 0xFFFFFFFF) / 2**32


def resample(clusters, sides, draws: int, seed: int):
    """Clusters, then tasks in them; then attempts for one side, none for the difference of two (last − first)."""
    numbers = uniform(seed)

    def pick(count: int) -> int:
        return int(next(numbers) * count)

    means = numpy.empty(draws)
    for draw in range(draws):
        total, count = 0.0, 0
        for _ in clusters:
            cluster = clusters[pick(len(clusters))]
            for _ in cluster:
                task = cluster[pick(len(cluster))]
                outcomes = [numpy.array(task[side]) for side in sides]
                if len(sides) == 1:
                    outcomes = [outcomes[0][[pick(len(outcomes[0])) for _ in outcomes[0]]]]
                rates = [int(side.sum()) / len(side) for side in outcomes]
                total += rates[0] if len(rates) == 1 else rates[1] - rates[0]
            count += len(cluster)
        means[draw] = total / count
    return means


def bootstrap_case(generator, sizes, attempts, paired: bool, draws: int, seed: int, level: float):
    clusters = []
    for number, size in enumerate(sizes):
        cluster = []
        for task in range(size):
            rate = generator.uniform(0, 1)
            name = {"taskId": f"t{number:02d}-{task:02d}", "cluster": f"c{number:02d}"}
            k = int(generator.integers(attempts[0], attempts[1] + 1))
            sides = ["before", "after"] if paired else ["outcomes"]
            cluster.append(name | {side: [int(x) for x in generator.binomial(1, rate, k)] for side in sides})
        clusters.append(cluster)
    means = resample(clusters, ["before", "after"] if paired else ["outcomes"], draws, seed)
    tail = (1 - level) / 2
    return {
        "paired": paired,
        "tasks": [task for cluster in clusters for task in cluster],
        "draws": draws,
        "seed": seed,
        "level": level,
        "low": float(numpy.quantile(means, tail)),
        "high": float(numpy.quantile(means, 1 - tail)),
    }


def pass_at_k(n: int, c: int, k: int) -> float:
    """The estimator as published with HumanEval (arXiv 2107.03374, figure 3)."""
    if n - c < k:
        return 1.0
    return float(1.0 - numpy.prod(1.0 - k / numpy.arange(n - c + 1, n + 1)))


def main() -> None:
    generator = numpy.random.default_rng(SEED)
    probabilities = [0.001, 0.025, 0.2, 0.5, 0.8, 0.9, 0.95, 0.975, 0.995, 0.9999]
    freedoms = [1, 2, 4, 9, 39, 104, 499, 100000]
    shapes = [(0.5, 0.5), (1, 30), (3.5, 1.5), (12, 1), (40, 61), (500, 2), (5000, 7000)]
    proportions = [(0, 1), (1, 1), (0, 20), (20, 20), (1, 20), (7, 40), (39, 105), (195, 500), (3, 5000)]
    tables = [(0, 0), (0, 1), (0, 6), (1, 5), (3, 3), (5, 20), (11, 24), (130, 171), (900, 800)]
    samples = [generator.normal(0.1, 0.4, size).tolist() for size in (2, 3, 5, 40, 105)]
    data = {
        "versions": {
            "python": sys.version.split()[0],
            "numpy": numpy.__version__,
            "scipy": scipy.__version__,
            "statsmodels": statsmodels.__version__,
            "seed": SEED,
        },
        "normal": [{"probability": p, "quantile": float(stats.norm.ppf(p))} for p in probabilities],
        "student": [
            {"probability": p, "freedom": f, "quantile": float(stats.t.ppf(p, f))} for p in probabilities for f in freedoms
        ],
        "beta": [
            {"a": a, "b": b, "x": x, "value": float(special.betainc(a, b, x))}
            for a, b in shapes
            for x in (0.001, 0.03, 0.25, 0.4, 0.5, 0.9, 0.999)
        ],
        "betaQuantile": [
            {"a": a, "b": b, "probability": p, "x": float(special.betaincinv(a, b, p))}
            for a, b in shapes
            for p in probabilities
        ],
        "proportions": [
            {
                "successes": c,
                "trials": n,
                "level": level,
                "wilson": [float(x) for x in proportion_confint(c, n, 1 - level, "wilson")],
                "exact": [float(x) for x in proportion_confint(c, n, 1 - level, "beta")],
            }
            for c, n in proportions
            for level in (0.9, 0.95, 0.99)
        ],
        "mcnemar": [
            {
                "onlyBefore": b,
                "onlyAfter": c,
                "exact": float(mcnemar([[7, b], [c, 9]], exact=True).pvalue) if b + c > 0 else 1.0,
                "midP": float(2 * stats.binom.cdf(min(b, c), b + c, 0.5) - stats.binom.pmf(min(b, c), b + c, 0.5)),
            }
            for b, c in tables
        ],
        "means": [
            {
                "values": values,
                "mean": float(numpy.mean(values)),
                "sem": float(stats.sem(values)),
                "level": level,
                "interval": [float(x) for x in stats.ttest_1samp(values, 0).confidence_interval(level)],
            }
            for values in samples
            for level in (0.9, 0.95)
        ],
        "passAtK": [
            {"n": n, "c": c, "k": k, "value": pass_at_k(n, c, k)}
            for n, c in ((1, 0), (1, 1), (5, 1), (10, 3), (10, 9), (16, 4), (200, 3), (1000, 500))
            for k in (1, 2, 5, 10, 100)
            if k <= n
        ],
        "bootstraps": [
            bootstrap_case(generator, [4, 1, 7, 3], (5, 5), False, 300, 1, 0.95),
            bootstrap_case(generator, [12], (1, 1), False, 300, 2, 0.9),
            bootstrap_case(generator, [2, 5, 1, 1, 6], (2, 5), False, 257, 4294967295, 0.99),
            bootstrap_case(generator, [3, 3, 2, 8], (1, 1), True, 300, 3, 0.95),
            bootstrap_case(generator, [5, 2, 2], (3, 6), True, 301, 77, 0.9),
        ],
    }
    json.dump(data, sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")


main()
