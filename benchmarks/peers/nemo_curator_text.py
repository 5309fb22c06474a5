"""Runs in the peer's environment: its filters, modifiers or removal over generated documents; prints results and costs.

peer/bin/python benchmarks/peers/nemo_curator_text.py filters texts.json
peer/bin/python benchmarks/peers/nemo_curator_text.py modifiers texts.json        (needs ftfy)
peer/bin/python benchmarks/peers/nemo_curator_text.py removal docs ids.parquet output
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
from nemo_curator.stages.text.deduplication.removal import TextDuplicatesRemovalStage
from nemo_curator.stages.text.filters.heuristic import string
from nemo_curator.stages.text.filters.heuristic.repetition import repetition
from nemo_curator.tasks import DocumentBatch

FILTERS = [
    string.NonAlphaNumericFilter(),
    string.SymbolsToWordsFilter(),
    string.NumbersFilter(),
    string.UrlsFilter(),
    string.WhiteSpaceFilter(),
    string.ParenthesesFilter(),
    string.BoilerPlateStringFilter(),
    repetition.RepeatedLinesFilter(),
    repetition.RepeatedParagraphsFilter(),
    repetition.RepeatedLinesByCharFilter(),
    repetition.RepeatedParagraphsByCharFilter(),
    string.WordCountFilter(),
    string.PunctuationFilter(),
    string.CommonEnglishWordsFilter(),
    string.MeanWordLengthFilter(),
    string.LongWordFilter(),
    string.WordsWithoutAlphabetsFilter(),
    string.EllipsisFilter(),
    string.BulletsFilter(),
    *(
        repetition.RepeatingTopNGramsFilter(n=size, max_repeating_ngram_ratio=limit)
        for size, limit in ((2, 0.2), (3, 0.18), (4, 0.16))
    ),
    *(
        repetition.RepeatingDuplicateNGramsFilter(
            n=size, max_repeating_duplicate_ngram_ratio=(20 - size) / 100
        )
        for size in range(5, 11)
    ),
]


def main() -> None:
    mode, *words = sys.argv[1:]
    if mode == "removal":
        started = time.process_time()
        said = {"documents": remove(*map(Path, words))}
    else:
        frame = pd.DataFrame({"text": json.loads(Path(words[0]).read_text(encoding="utf-8"))})
        modify = make_modify() if mode == "modifiers" else None
        started = time.process_time()
        said = {"kept": filter_texts(frame)} if modify is None else {"texts": modify_texts(frame, modify)}
    print(json.dumps({**said, "cpu_s": time.process_time() - started}))


def filter_texts(frame: pd.DataFrame) -> list[int]:
    """The chain of its stages: a score and a mask each."""
    for one in FILTERS:
        scores = frame["text"].apply(one.score_document)
        frame = frame[scores.apply(one.keep_document)]
    return list(frame.index)


def make_modify() -> Any:
    """Its stage with the six modifiers of its benchmark, in their order."""
    from nemo_curator.stages.text.modifiers import (
        BoilerPlateStringModifier,
        MarkdownRemover,
        Modify,
        NewlineNormalizer,
        QuotationRemover,
        UrlRemover,
    )
    from nemo_curator.stages.text.modifiers.unicode import UnicodeReformatter

    kinds = (
        BoilerPlateStringModifier,
        MarkdownRemover,
        NewlineNormalizer,
        QuotationRemover,
        UnicodeReformatter,
        UrlRemover,
    )
    return Modify([kind() for kind in kinds], input_fields="text")


def modify_texts(frame: pd.DataFrame, modify: Any) -> list[str]:
    batch = modify.process(DocumentBatch(dataset_name="docs", data=frame))
    return list(batch.to_pandas()["text"])


def remove(docs: Path, ids: Path, output: Path) -> int:
    """Its removal stage, file by file, between pandas' reader and writer."""
    stage = TextDuplicatesRemovalStage(str(ids), id_field="id", duplicate_id_field="id")
    output.mkdir(parents=True, exist_ok=True)
    documents = 0
    for file in sorted(docs.iterdir()):
        batch = DocumentBatch(dataset_name="docs", data=pd.read_parquet(file))
        left = stage.process(batch).to_pandas()
        left.to_parquet(output / file.name, index=False)
        documents += len(left)
    return documents


if __name__ == "__main__":
    main()
