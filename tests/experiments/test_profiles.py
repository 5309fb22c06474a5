"""Stacks as profilers write them, and the picture of two profiles."""

from pathlib import Path

from paceline.experiments.explain.flame import flame_graph, flame_page
from paceline.experiments.explain.stacks import Profile, differences, fold_perf, read_py_spy

PERF = """
\t            60ed __strcmp_avx2+0x38 (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t            ae77 look up (/work/tree/bin/tool)
\t          155944 main+0x34 (/work/tree/bin/tool)

\t          155944 main+0x34 (/work/tree/bin/tool)

"""


def test_stacks_of_perf_are_folded_from_the_outside_in() -> None:
    profile = fold_perf(PERF, rate=2, places=["/work/tree"])
    inner = ("main (bin/tool)", "look up (bin/tool)", "__strcmp_avx2 (/usr/lib/x86_64-linux-gnu/libc.so.6)")
    assert profile.spent == {inner: 0.5, ("main (bin/tool)",): 0.5}


def test_lines_and_places_do_not_count_and_what_is_no_stack_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "folded"
    file.write_text(
        'process 15:"python w.py";<module> (/tree/w.py:1);inner (/tree/a/w.py:20) 66\n'
        'process 15:"python w.py";<module> (/tree/w.py:1);inner (/tree/a/w.py:24) 34\n'
        'process 15:"python w.py" 5\nnonsense\n;;; x\n'
    )
    profile = read_py_spy(file, rate=100, places=["/tree"])
    assert profile.spent == {("<module> (w.py)", "inner (a/w.py)"): 1.0}


def test_what_grew_is_named_and_noise_is_not() -> None:
    base = Profile(spent={("main", "sort"): 1.0, ("main", "read"): 1.0})
    head = Profile(
        spent={("main", "sort"): 2.0, ("main", "read"): 1.05, ("main", "new"): 0.5, ("main", "gone"): 0}
    )
    assert [(one.name, one.base, one.head) for one in differences(base, head)] == [
        ("sort", 1.0, 2.0),
        ("new", 0, 0.5),
    ]
    assert differences(base, base) == []


def test_the_picture_shows_both_sides_and_escapes_names() -> None:
    base = Profile(spent={("<b>main", "sort"): 1.0, ("<b>main", "gone"): 1.0})
    head = Profile(spent={("<b>main", "sort"): 2.0})
    page = flame_page("a <i> & b", base, head, iter(["<p>below</p>"]))
    assert "<b>main" not in page and "&lt;b&gt;main" in page and "a &lt;i&gt; &amp; b" in page
    assert "sort: base 1 s, head 2 s, +1 s" in page
    assert "gone: base 1 s, head 0 s, -1 s" in page
    assert page.index("gone") < page.index("sort: base") or "below" in page
    assert "Nothing was seen" in flame_graph(Profile(spent={}), Profile(spent={}))
