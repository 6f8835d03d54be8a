#!/usr/bin/env python3
"""Makes the golden file of the tokenizers' tests from Hugging Face's library: crates/regard-nn/tests/data/golden/tokens.json.

    golden_tokens.py             writes it
    golden_tokens.py --check     compares it with what this version of the library computes

Needs the Python package `tokenizers`. The file holds a small corpus, texts that are hard to get right, and, for each kind of
tokenizer, its `tokenizer.json` and what it makes of every text: ids, pieces, offsets (in characters), words, segments and the
decoded text. Each tokenizer is built here from parts and trained by the library's own trainers, apart from this project.
"""

import argparse
import json
import sys
from pathlib import Path

from tokenizers import (
    AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers,
)

FILE = Path(__file__).resolve().parents[1] / "crates/regard-nn/tests/data/golden/tokens.json"

CORPUS = [
    "The film isn't bad, but it isn't good either; the actors try, and the story doesn't.",
    "A warm, well-acted comedy. I laughed, my sister laughed, even the dog laughed!",
    "Two hours of rain and a man who won't talk: I have seldom been so bored.",
    "The naïve waiter of the café steals every scene he is in.",
    "It’s long, it’s loud, and it’s the best thing he has made since 1994.",
    "Not one of the jokes works. Not one.",
    "The camera loves her; the script doesn't know what to do with her.",
    "I wanted to like it more than I did, and I liked it more than I'd thought.",
    "Das Ende ist schön, aber der Weg dahin ist zäh.",
    "Slow, careful and, in the end, moving: the story of a good man who does a bad thing.",
]

TEXTS = [
    "",
    " ",
    "\n",
    "the film isn't good",
    "  The   camera\tloves\n\nthe café.  ",
    "Nai\u0308ve cafe\u0301, naïve café",
    "It’s 'quoted' and rock'n'roll and d'Artagnan''s",
    "well-acted 3.5/10 (100%)",
    "emoji 😀 and 👩‍👩‍👧 and 🏳️‍🌈",
    "中文 and 日本語 and हिन्दी and العربية",
    "İSTANBUL Straße ﬁlm",
    "nbsp\u00a0here, next\u0085line, zero\u200bwidth, nul\u0000byte",
    "<PAD> <UNK> [MASK] <|endoftext|> <unk>",
    "e\u0301\u0302\u0303 \ufffd",
]

LETTERS = r"[\p{L}\p{M}\p{N}]+(?:'[\p{L}\p{M}\p{N}]+)*"


def special(*pieces):
    """Special pieces as they are declared to the library."""
    return [AddedToken(piece, special=True, normalized=False) for piece in pieces]


def words(punctuation):
    """Whole words, lower-case, with or without punctuation."""
    tokenizer = Tokenizer(models.WordLevel(unk_token="<UNK>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.Replace("’", "'")])
    pattern = LETTERS + (r"|[^\s\p{L}\p{M}\p{N}]" if punctuation else "")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    tokenizer.train_from_iterator(CORPUS, trainers.WordLevelTrainer(
        vocab_size=60, special_tokens=special("<PAD>", "<UNK>"), show_progress=False))
    return tokenizer


def whitespace_words():
    """Words between white space, line ends as pieces."""
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace("\n", " <eos> ")
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(CORPUS, trainers.WordLevelTrainer(
        special_tokens=["<unk>", "<eos>"], show_progress=False))
    # The trainer declares both special; `<unk>` is a word of such texts.
    file = json.loads(tokenizer.to_str())
    file["added_tokens"] = [piece for piece in file["added_tokens"] if piece["content"] == "<eos>"]
    file["added_tokens"][0]["normalized"] = False
    return Tokenizer.from_str(json.dumps(file))


def characters():
    """Every character, others unknown."""
    found = sorted(set("".join(CORPUS)))
    vocabulary = {piece: place for place, piece in enumerate(["<UNK>", *found])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<UNK>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def byte_pairs():
    """Byte-level BPE as GPT-2 has it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=330, min_frequency=2, special_tokens=special("<|endoftext|>"), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def word_pieces():
    """WordPiece as BERT has it. Its trainer numbers pieces by chance, so this vocabulary is chosen by hand."""
    found = sorted({c for text in CORPUS for c in text.lower() if c.isalnum() and c.isascii()})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *found, *("##" + c for c in found), *".,;:!'()%/<>-|",
              "the", "film", "good", "cafe", "camera", "love", "##s", "##ing", "naive", "well", "##ed", "act", "中", "文"]
    vocabulary = {piece: place for place, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])])
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    tokenizer.add_special_tokens(special("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))
    return tokenizer


def encoded(tokenizer, *text):
    """What a tokenizer makes of a text, or of two."""
    result = tokenizer.encode(*text)
    return {
        "ids": result.ids, "pieces": result.tokens, "offsets": [list(pair) for pair in result.offsets],
        "words": result.word_ids, "types": result.type_ids,
        "kept": tokenizer.decode(result.ids, skip_special_tokens=False), "dropped": tokenizer.decode(result.ids),
    }


def golden():
    """The content of the file."""
    kinds = {
        "words": words(False), "words_and_punctuation": words(True), "whitespace_words": whitespace_words(),
        "characters": characters(), "byte_pairs": byte_pairs(), "word_pieces": word_pieces(),
    }
    return {
        "corpus": CORPUS, "texts": TEXTS,
        "tokenizers": {
            name: {
                "file": json.loads(tokenizer.to_str()),
                "texts": [encoded(tokenizer, text) for text in TEXTS],
                "pair": encoded(tokenizer, TEXTS[3], TEXTS[4]),
            }
            for name, tokenizer in kinds.items()
        },
    }


def main():
    """Writes or checks the file."""
    parser = argparse.ArgumentParser(description="Makes the golden file of the tokenizers' tests.")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    content = json.dumps(golden(), ensure_ascii=True, separators=(",", ":"), sort_keys=True) + "\n"
    if parser.parse_args().check:
        same = FILE.read_text() == content
        print("the same" if same else "DIFFERENT")
        sys.exit(0 if same else 1)
    FILE.write_text(content)
    print(f"{FILE}: {len(content)} bytes")


if __name__ == "__main__":
    main()
