#!/usr/bin/env python3
"""A bag of words on IMDb: logistic regression, beside which records/sentiment.md sets the models of `regard train`.

    python3 tools/bag_of_words.py aclImdb_v1.tar.gz

Needs scikit-learn. The most frequent 10,000 words of the training reviews, with the strength of regularisation chosen by
five-fold cross-validation on the training reviews; the test reviews are looked at once.
"""

import argparse
import re
import tarfile

from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Binarizer

WORDS = 10_000
REVIEW = re.compile(r"aclImdb/(train|test)/(neg|pos)/[^/]+\.txt")


def reviews(archive):
    """Texts and labels of the two parts."""
    parts = {"train": ([], []), "test": ([], [])}
    with tarfile.open(archive) as files:
        for file in files:
            found = REVIEW.fullmatch(file.name)
            if found:
                text = files.extractfile(file).read().decode("utf-8").replace("<br />", " ")
                parts[found[1]][0].append(text)
                parts[found[1]][1].append(found[2] == "pos")
    return parts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", help="aclImdb_v1.tar.gz")
    parts = reviews(parser.parse_args().archive)
    (texts, labels), (test_texts, test_labels) = parts["train"], parts["test"]
    print(f"{len(texts)} training reviews, {len(test_texts)} test reviews")
    count = CountVectorizer(max_features=WORDS, token_pattern=r"(?u)\b\w+\b")
    counts, test_counts = count.fit_transform(texts), count.transform(test_texts)
    for name, weigh in [("present or not", Binarizer()), ("tf-idf", TfidfTransformer(sublinear_tf=True))]:
        steps = Pipeline([("weigh", weigh), ("classify", LogisticRegression(max_iter=2000))])
        strengths = {"classify__C": [0.01, 0.03, 0.1, 0.3, 1, 3, 10]}
        search = GridSearchCV(steps, strengths, cv=5).fit(counts, labels)
        chosen = search.best_params_["classify__C"]
        print(f"{name}: test accuracy {search.score(test_counts, test_labels):.4f} (C {chosen})", flush=True)


if __name__ == "__main__":
    main()
