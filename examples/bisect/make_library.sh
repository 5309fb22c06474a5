#!/bin/sh
# Makes ./library: a repository of ten commits, the seventh of which makes a function slow. Nobody says which.
set -eu

git init --quiet --initial-branch=main library
cd library

keep() {
  git add .
  git -c user.name=demo -c user.email=demo@example.org -c commit.gpgsign=false commit --quiet --message "$1"
}

cat > words.py <<'PYTHON'
"""Words and what to do with them."""


def unique(words):
    """Each word once, in the order of their first appearance."""
    seen = set()
    found = []
    for word in words:
        if word not in seen:
            seen.add(word)
            found.append(word)
    return found
PYTHON
keep "Find unique words"
git tag first

echo "Words and what to do with them." > README.md
keep "Say what this is"

cat >> words.py <<'PYTHON'


def lengths(words):
    """How many words there are of each length."""
    counts = {}
    for word in words:
        counts[len(word)] = counts.get(len(word), 0) + 1
    return counts
PYTHON
keep "Count words by their length"

echo "words.unique(['a', 'b', 'a'])  # ['a', 'b']" >> README.md
keep "Show an example"

sed -i.old 's/counts = {}/counts: dict[int, int] = {}/' words.py && rm words.py.old
keep "Say what the counts are"

cat > test_words.py <<'PYTHON'
from words import unique


def test_unique():
    assert unique(["a", "b", "a"]) == ["a", "b"]
PYTHON
keep "Test unique words"

cat > edit.py <<'PYTHON'
from pathlib import Path

source = Path("words.py")
text = source.read_text()
text = text.replace("    seen = set()\n", "").replace("            seen.add(word)\n", "")
source.write_text(text.replace("if word not in seen:", "if word not in found:"))
PYTHON
python3 edit.py
rm edit.py
keep "Do without a second collection"

cat >> words.py <<'PYTHON'


def longest(words):
    """The longest word, the first of them if there are several."""
    return max(words, key=len)
PYTHON
keep "Find the longest word"

echo "Python 3.11 or newer." >> README.md
keep "Name the Python that is needed"

cat >> test_words.py <<'PYTHON'


def test_unique_of_nothing():
    assert unique([]) == []
PYTHON
keep "Test an empty list, too"
