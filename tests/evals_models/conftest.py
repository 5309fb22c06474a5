"""Workers import torch and transformers: with their bytecode kept, the second one does so in half the time."""

import os

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
