"""Common Crawl benchmark: WARC files -> text of their pages -> language and quality filters -> documents.

    python benchmarks/scripts/common_crawl_benchmark.py --benchmark-results-path out --input-path warcs \
        --output_path documents --output_format jsonl --executor local
    python benchmarks/scripts/common_crawl_benchmark.py --benchmark-results-path out --url_limit 2 \
        --download_path downloads --output_path documents --output_format parquet

Without `--input-path` the WARC files of a snapshot of Common Crawl are fetched.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from document_run import Totals, keep_written, make_parser, run_pipeline, run_script

from paceline.curate import Pipeline, Stage
from paceline.curate.crawl import CRAWL_HOST, LanguageStage, WarcDownloadStage, WarcListStage, WarcTextStage
from paceline.curate.text_filters import HEURISTIC_FILTERS, ScoreFilterStage
from paceline.curate.writers import FORMATS, DocumentWriterStage, prepare_output

SNAPSHOT = "CC-MAIN-2025-26"


def main(argv: Sequence[str]) -> int:
    parser = make_parser("documents from WARC files")
    add = parser.add_argument
    add("--input-path", "--input_path", help="WARC file, directory, address, or a list of them")
    add("--snapshot", default=SNAPSHOT, help=f"crawl to fetch without --input-path ({SNAPSHOT})")
    add("--url_limit", "--url-limit", type=int, help="read no more than this many WARC files")
    add("--download_path", "--download-path", help="where fetched files are kept (RESULTS/downloads)")
    add("--output_path", "--output-path", help="directory for the documents (RESULTS/documents)")
    add("--output_format", "--output-format", choices=FORMATS, default="jsonl")
    add("--languages", nargs="*", default=["en"], help="languages to keep; without a value all (en)")
    add("--quality-filters", action=argparse.BooleanOptionalAction, default=True)
    args = parser.parse_args(argv)
    args.download_path = args.download_path or str(args.benchmark_results_path / "downloads")
    args.output_path = args.output_path or str(args.benchmark_results_path / "documents")
    return run_script(args, run)


def run(args: argparse.Namespace, totals: Totals) -> dict[str, Any]:
    source = args.input_path or f"{CRAWL_HOST}crawl-data/{args.snapshot}/warc.paths.gz"
    prepare_output(args.output_path)
    tasks = run_pipeline(Pipeline("common_crawl", make_stages(args, source)), args, totals)
    keep_written(tasks, args, totals)
    dropped = sum(totals.count("score_filter", one.score) for one in HEURISTIC_FILTERS)
    documents = totals.count("document_writer", "documents")
    return {
        "num_input_documents": totals.count("warc_text", "responses"),
        "num_pages": totals.count("warc_text", "pages"),
        "num_pages_without_text": totals.count("warc_text", "empty"),
        "num_removed_language": totals.count("language", "dropped"),
        "num_removed_quality": dropped,
        "num_removed": dropped + totals.count("language", "dropped"),
        "num_output_documents": documents,
        "total_documents": documents,
        "num_output_tasks": len(tasks),
        "downloaded_bytes": totals.count("warc_download", "bytes"),
    }


def make_stages(args: argparse.Namespace, source: str) -> list[Stage]:
    stages: list[Stage] = [
        WarcListStage(source, limit=args.url_limit),
        WarcDownloadStage(args.download_path),
        WarcTextStage(),
        LanguageStage(text_field="text", languages=args.languages),
    ]
    if args.quality_filters:
        stages.append(ScoreFilterStage(text_field="text"))
    return [*stages, DocumentWriterStage(args.output_path, file_format=args.output_format)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
