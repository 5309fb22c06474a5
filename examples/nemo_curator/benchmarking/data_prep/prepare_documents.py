"""Writes documents as JSON lines, the same every time; what is there already is left alone."""

import argparse
import json
from pathlib import Path

TEXT = "“Words” of document {number}.\n\n\n\nSee https://example.org/{number} for more; it’s short."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output-path", type=Path, required=True)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--documents-per-file", type=int, default=250)
    args = parser.parse_args()
    args.output_path.mkdir(parents=True, exist_ok=True)
    for index in range(args.files):
        target = args.output_path / f"part-{index:03}.jsonl"
        numbers = range(index * args.documents_per_file, (index + 1) * args.documents_per_file)
        if not target.exists():
            lines = [json.dumps({"id": number, "text": TEXT.format(number=number)}) for number in numbers]
            target.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
