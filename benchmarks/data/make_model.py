"""Makes a language model of a million random weights that reads bytes, with its tokenizer; nothing is downloaded.

python benchmarks/data/make_model.py --output=model
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from evals_models import build

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="directory")
    build(parser.parse_args().output)
