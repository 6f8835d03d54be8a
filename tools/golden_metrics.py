#!/usr/bin/env python3
"""Makes the golden file of the metrics' tests from scikit-learn and sacreBLEU: crates/regard-nn/tests/golden/metrics.json.

    golden_metrics.py             writes it
    golden_metrics.py --check     compares the file with what these packages compute

Needs numpy, scikit-learn and sacrebleu. Each case has its inputs and what the package makes of them. Draws come from
NumPy's frozen generator, so every machine makes the same ones.
"""

import argparse
import json
import math
import sys
import warnings
from pathlib import Path

import numpy
from sacrebleu.metrics import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sklearn import metrics

PATH = Path(__file__).resolve().parents[1] / "crates/regard-nn/tests/golden/metrics.json"
LARGEST = 60_000  # bytes


def classification(random):
    """Labels and predictions; precision, recall and F1 of each class and their means."""
    inputs = {
        "binary": (2, random.randint(2, size=40), random.randint(2, size=40)),
        "perfect": (2, [0, 1, 1, 0, 1], [0, 1, 1, 0, 1]),
        "all wrong": (2, [0, 1, 1, 0], [1, 0, 0, 1]),
        "one class true": (2, [1, 1, 1], [1, 0, 1]),
        "one class at all": (2, [1, 1, 1], [1, 1, 1]),
        "never predicted": (2, [0, 1, 1, 0, 0], [0, 0, 0, 0, 0]),
        "four classes": (4, random.randint(4, size=60), random.randint(4, size=60)),
        "a class missing": (4, [0, 1, 3, 3, 1, 0], [0, 3, 3, 1, 1, 0]),
        "a class only predicted": (3, [0, 0, 1, 1], [0, 2, 1, 2]),
    }
    return [labels_case(name, *values) for name, values in inputs.items()]


def labels_case(name, classes, truth, predicted):
    truth, predicted = numpy.asarray(truth), numpy.asarray(predicted)
    labels = range(classes)
    each = metrics.precision_recall_fscore_support(truth, predicted, labels=labels, zero_division=0)
    mean = metrics.precision_recall_fscore_support(truth, predicted, average="macro", zero_division=0)
    return {
        "name": name,
        "classes": classes,
        "truth": truth.tolist(),
        "predicted": predicted.tolist(),
        "confusion": metrics.confusion_matrix(truth, predicted, labels=labels).tolist(),
        "accuracy": metrics.accuracy_score(truth, predicted),
        "precision": each[0].tolist(),
        "recall": each[1].tolist(),
        "f1": each[2].tolist(),
        "macro": [float(value) for value in mean[:3]],
    }


def ranking(random):
    """Labels and scores (f32); the curve with a point for every distinct score, and its area."""
    truth = random.randint(2, size=60)
    inputs = {
        "no ties": (truth, random.standard_normal(60) + truth),
        "many ties": (truth, random.randint(5, size=60) + truth),
        "all tied": ([0, 1, 1, 0], [0.5, 0.5, 0.5, 0.5]),
        "perfect": ([0, 0, 1, 1], [0.1, 0.2, 0.3, 0.4]),
        "reversed": ([1, 1, 0, 0], [0.1, 0.2, 0.3, 0.4]),
        "one of each": ([1, 0], [-1.0, 2.0]),
        "a tie across classes": ([0, 1, 0, 1], [0.1, 0.4, 0.4, 0.8]),
        "signed zeros": ([0, 1, 1, 0, 1], [0.0, -0.0, 1.0, -1.0, 0.0]),
        "extremes": ([0, 1, 1, 0], [-3e38, 3e38, 1e-45, -1e-45]),
        "few positives": (numpy.arange(50) % 17 == 0, random.random_sample(50).round(1)),
    }
    return [scores_case(name, *values) for name, values in inputs.items()]


def scores_case(name, truth, scores):
    truth, scores = numpy.asarray(truth).astype(int), numpy.asarray(scores, dtype=numpy.float32)
    false_positive, true_positive, thresholds = metrics.roc_curve(truth, scores, drop_intermediate=False)
    return {
        "name": name,
        "truth": truth.tolist(),
        "scores": [float(score) for score in scores],
        "false_positive_rates": false_positive.tolist(),
        "true_positive_rates": true_positive.tolist(),
        # The first is infinite, which JSON cannot say.
        "thresholds": [float(value) for value in thresholds[1:]],
        "area": float(metrics.roc_auc_score(truth, scores)),
    }


SENTENCES = [
    "The film, which nobody I know has seen, is clever.",
    "The film that nobody I know has seen is very clever.",
    "It cost $3,000.50 (about 2,700 euros) in 1987-88!",
    "It cost about $3,000.5 in 1987-1988.",
    "“Ça va bien”, dit-elle; l’été était là…",
    "« Ça va », dit-elle : l'été était là.",
    "Der Käse & die Würste: 50% billiger?",
    "a b c d e f g h",
    "h g f e d c b a",
    "the the the the the the the",
    "日本語 の 文章 。",
]


def bleu(_random):
    """Outputs with their references; the score and the counts behind it."""
    first, second = SENTENCES[0::2], SENTENCES[1::2]
    pairs = list(zip(first, second))
    cases = {
        "different": [(output, [reference]) for output, reference in pairs],
        "equal": [(sentence, [sentence]) for sentence in SENTENCES],
        "one word": [("yes", ["yes"])],
        "three words": [("a good film", ["a good film"])],
        "short but smoothed": [("a good long film", ["a bad long film"])],
        "nothing in common": [("one two three four five", ["six seven eight nine ten"])],
        "empty output": [("", ["something was expected here"])],
        "one empty output": [("", ["a b c d e"]), ("a b c d e f", ["a b c d e f"])],
        "only punctuation": [("...", ["..."]), ("?!", ["!?"])],
        "clipped": [("the the the the the the the", ["the cat is on the mat"])],
        "too short": [("the cat is on", ["the cat is on the mat with a hat"])],
        "too long": [("the cat is on the mat with a hat", ["the cat is on the"])],
        "case matters": [("The Cat Is On The Mat", ["the cat is on the mat"])],
        "several references": [
            ("the cat is on the mat", ["a cat is on the mat", "there is a cat on the mat", "the cat sat"]),
            ("it is good", ["it is very good indeed", "good it is"]),
        ],
        "equally close references": [("a b c d e", ["a b c d e f g", "a b c"]), ("x y z", ["x y", "x y z u"])],
        "an empty reference beside": [("a b c d e", ["", "a b c d f"])],
        "white space": [("  a b\tc\u00a0d\u2003e \n", ["a b c d e"]), ("a\x1cb c d", ["a b c d"])],
    }
    return [bleu_case(name, segments) for name, segments in cases.items()]


def bleu_case(name, segments):
    most = max(len(references) for _, references in segments)
    # sacreBLEU takes one list a reference's number; None where a segment has no such reference.
    columns = [[refs[i] if i < len(refs) else None for _, refs in segments] for i in range(most)]
    score = BLEU().corpus_score([output for output, _ in segments], columns)
    return {
        "name": name,
        "segments": [{"output": output, "references": references} for output, references in segments],
        "score": score.score,
        "precisions": score.precisions,
        "brevity_penalty": score.bp,
        "matches": score.counts,
        "totals": score.totals,
        "output_length": score.sys_len,
        "reference_length": score.ref_len,
    }


def tokens(_random):
    """Lines and their 13a tokens."""
    lines = SENTENCES + [
        "",
        "   ",
        "...",
        "a..b,,c",
        ",.1.,2,",
        "1,000.5-2.0-x 3-4 a-b -5",
        "e.g. U.S.A., Ph.D.",
        "&quot;A&amp;B&quot; &lt;tag&gt; &amp;lt; &nbsp;",
        "a<skipped>b <b>c</b>",
        "line-\nbreak and\nnew line",
        "tab\tand\x0bothers\x1cand\x85so\u2028on\u3000here",
        "don't 'quote' rock'n'roll it’s",
        "a/b\\c|d^e_f`g~h{i}j[k]l@m#n$o%p*q+r=s<t>u?v!w;x:y",
        "٣,٤ ½.5 ²,3 １.２",
        "é,à.ü 🎬.🎥,🎞",
        "x\u0301.y",
    ]
    tokenizer = Tokenizer13a()
    # As the metric calls it: without white space at the end.
    return [{"line": line, "tokens": tokenizer(line.rstrip()).split(" ") if line.strip() else []} for line in lines]


def perplexity(random):
    """Summed losses and numbers of tokens; the exponential of the mean."""
    losses = random.random_sample(6) * 1000
    counts = random.randint(1, 400, size=6)
    cases = [(float(loss), int(count)) for loss, count in zip(losses, counts)] + [(0.0, 5), (1e-12, 1)]
    return [{"loss": loss, "tokens": count, "perplexity": math.exp(loss / count)} for loss, count in cases]


FAMILIES = (classification, ranking, bleu, tokens, perplexity)


def make():
    warnings.simplefilter("ignore")  # about the ratios that have nothing to divide by
    return {family.__name__: family(numpy.random.RandomState(number)) for number, family in enumerate(FAMILIES)}


def differences(stored, made, where=""):
    """What differs, a line each; numbers may differ by rounding."""
    if isinstance(made, dict) and isinstance(stored, dict):
        lines = [f"{where}: only one has {key}" for key in sorted(stored.keys() ^ made.keys())]
        for key in sorted(stored.keys() & made.keys()):
            lines += differences(stored[key], made[key], f"{where}/{key}")
        return lines
    if isinstance(made, list) and isinstance(stored, list):
        if len(made) != len(stored):
            return [f"{where}: {len(stored)} in the file, {len(made)} now"]
        return [line for i, pair in enumerate(zip(stored, made)) for line in differences(*pair, f"{where}/{i}")]
    numbers = isinstance(made, (int, float)) and isinstance(stored, (int, float))
    if stored == made or (numbers and math.isclose(stored, made, rel_tol=1e-12, abs_tol=1e-12)):
        return []
    return [f"{where}: {stored!r} in the file, {made!r} now"]


def main():
    parser = argparse.ArgumentParser(description="Makes the golden file of the metrics' tests.")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    made = make()
    if options.check:
        if not PATH.exists():
            sys.exit("no such file")
        lines = differences(json.loads(PATH.read_text(encoding="utf-8")), made)
        sys.exit("\n".join(lines) if lines else None)
    PATH.parent.mkdir(parents=True, exist_ok=True)
    families = ",\n".join(
        f'"{name}": [\n' + ",\n".join(json.dumps(case) for case in cases) + "\n]"
        for name, cases in made.items()
    )
    PATH.write_text("{\n" + families + "\n}\n", encoding="utf-8")
    size = PATH.stat().st_size
    print(f"{size / 1000:.0f} kB")
    if size > LARGEST:
        sys.exit(f"more than the {LARGEST / 1000:.0f} kB a repository should carry")


if __name__ == "__main__":
    main()
