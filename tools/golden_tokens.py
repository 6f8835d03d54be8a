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


def letters():
    """Letters, digits and signs of the corpus, in order."""
    return sorted({c for text in CORPUS for c in text if not c.isspace()})


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
SPACE = "\u2581"


def merged(pieces, words):
    """A vocabulary of pieces and the merges that make words of them, from left to right."""
    vocabulary, merges = dict.fromkeys(pieces), {}
    for word in words:
        for end in range(2, len(word) + 1):
            vocabulary.setdefault(word[:end])
            merges.setdefault((word[:end - 1], word[end - 1]))
    return {piece: place for place, piece in enumerate(vocabulary)}, list(merges)


WORDS = [SPACE + word for word in ("the", "film", "isn't", "good", "camera", "loves", "and", "well")] + ["acted", "made"]


def unigram(normalizer, prefix, ending):
    """SentencePiece's unigram model as T5, XLM-RoBERTa, ALBERT and DeBERTa v3 have it, with scores chosen by hand."""
    special_pieces = ["<pad>", "</s>", "<unk>"]
    found = [(piece, 0.0) for piece in special_pieces]
    found += [(word, -4.0 - place / 8) for place, word in enumerate(WORDS)]
    found += [(piece, -9.0 - place / 64) for place, piece in enumerate([SPACE, *letters()])]
    tokenizer = Tokenizer(models.Unigram(found, unk_id=2, byte_fallback=False))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = prefix
    tokenizer.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {ending}", pair=f"$A {ending} $B {ending}", special_tokens=[(ending, 1)])
    tokenizer.add_special_tokens(special(*special_pieces))
    return tokenizer


def sentence_pieces():
    """T5: signs of full width and odd spaces become ordinary, runs of spaces one."""
    normalizer = normalizers.Sequence([
        normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    return unigram(normalizer, pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always"), "</s>")


def sentence_pieces_in_words():
    """ALBERT: quotes, accents and case removed, cut at white space before spaces become visible."""
    normalizer = normalizers.Sequence([
        normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(),
        normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip()])
    prefix = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")])
    return unigram(normalizer, prefix, "</s>")


def byte_fallback(start):
    """Llama 2 and Mistral: BPE over a text with visible spaces; characters outside the vocabulary become bytes."""
    vocabulary, merges = merged(["<unk>", "<s>", "</s>", *BYTES, SPACE, *letters()], WORDS)
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if start:
        tokenizer.normalizer = normalizers.Sequence([
            normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
        steps.append(decoders.Strip(content=" ", left=1))
    else:
        # Gemma: nothing in front, cut before spaces.
        tokenizer.normalizer = normalizers.Replace(" ", SPACE)
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    tokenizer.add_special_tokens(special("<unk>", "<s>", "</s>"))
    return tokenizer


def byte_pairs_by_pattern():
    """Llama 3 and Qwen: byte-level BPE, cut by a pattern of letters, three digits and signs."""
    trained = byte_pairs()
    model = json.loads(trained.to_str())["model"]
    merges = [tuple(merge) for merge in model["merges"]]
    tokenizer = Tokenizer(models.BPE(model["vocab"], merges, ignore_merges=True))
    pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
               r"|\s*[\r\n]+|\s+(?!\S)|\s+")
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|endoftext|> $A", pair="<|endoftext|> $A <|endoftext|>:1 $B:1",
                                      special_tokens=[("<|endoftext|>", 0)])])
    tokenizer.add_special_tokens(special("<|endoftext|>"))
    return tokenizer


def byte_pairs_in_pieces():
    """Falcon: punctuation, bytes, digits and runs of three digits cut in turn; RoBERTa's ends."""
    trained = byte_pairs()
    model = json.loads(trained.to_str())["model"]
    tokenizer = Tokenizer(models.BPE(model["vocab"], [tuple(merge) for merge in model["merges"]]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.RobertaProcessing(
        sep=("<|endoftext|>", 0), cls_token=("<|endoftext|>", 0), trim_offsets=True, add_prefix_space=False)
    tokenizer.add_special_tokens(special("<|endoftext|>"))
    return tokenizer


def word_ends():
    """CLIP: lower case, one kind of space, a mark at the end of each word."""
    found = [c for c in letters() if c.isascii()]
    pieces = ["<|startoftext|>", "<|endoftext|>", *found, *(c + "</w>" for c in found)]
    vocabulary = {piece: place for place, piece in enumerate(pieces)}
    merges = [("t", "h"), ("th", "e</w>"), ("g", "o"), ("go", "o"), ("goo", "d</w>")]
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(
        vocabulary, merges, unk_token="<|endoftext|>", continuing_subword_prefix="", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    pattern = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    tokenizer.post_processor = processors.RobertaProcessing(
        sep=("<|endoftext|>", 1), cls_token=("<|startoftext|>", 0), trim_offsets=False, add_prefix_space=False)
    tokenizer.add_special_tokens(special("<|startoftext|>", "<|endoftext|>"))
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
        "sentence_pieces": sentence_pieces(), "sentence_pieces_in_words": sentence_pieces_in_words(),
        "byte_fallback": byte_fallback(True), "byte_fallback_without_prefix": byte_fallback(False),
        "byte_pairs_by_pattern": byte_pairs_by_pattern(), "byte_pairs_in_pieces": byte_pairs_in_pieces(),
        "word_ends": word_ends(),
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
