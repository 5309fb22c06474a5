"""Two profiles as one picture: a differential flame graph, on a page that needs nothing else and runs nothing."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from paceline.experiments.explain.stacks import Profile
from paceline.experiments.page import CLOSE_PAGE, in_html, open_page
from paceline.numbers import number, quantity, signed

_WIDTH, _ROW = 1200, 18
_NARROWEST = 1.0
"""Frames of less than this many points of width are left out: nobody could see them."""
_DEEPEST = 80
_LETTER = 6.6

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2129; --paper: #fff; --faint: #6b7280; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --paper: #15181d; --faint: #9aa3ae; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 1.5rem; }
h1 { font-size: 1.3rem; } .faint { color: var(--faint); } .wide { overflow-x: auto; }
svg text { font: 11px ui-monospace, monospace; fill: #1d2129; pointer-events: none; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; } pre { overflow-x: auto; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; } td + td { text-align: right; }
"""


@dataclass(slots=True)
class _Node:
    """A call at its place in the tree, with what both sides spent there."""

    name: str
    base: float = 0.0
    head: float = 0.0
    children: "dict[str, _Node]" = field(default_factory=dict)

    @property
    def both(self) -> float:
        return self.base + self.head


def flame_page(title: str, base: Profile, head: Profile, below: Iterator[str]) -> str:
    """The whole page; `below` are lines of HTML after the picture."""
    name = in_html(title)
    lines = [
        open_page(name, _STYLE),
        f"<h1>{name}</h1>",
        f"<p>Base {in_html(quantity(base.total, base.unit))}, head {in_html(quantity(head.total, head.unit))}. "
        "The width of a call is what both sides spent in it; <b>red</b> is more at the head, <b>blue</b> less. "
        '<span class="faint">Hold the pointer over a call for its numbers.</span></p>',
        '<div class="wide">',
        flame_graph(base, head),
        "</div>",
        *below,
        CLOSE_PAGE,
    ]
    return "\n".join(lines) + "\n"


def flame_graph(base: Profile, head: Profile) -> str:
    """The picture, as SVG."""
    root = _tree(base, head)
    if not root.both:
        return "<p>Nothing was seen in either profile.</p>"
    boxes = list(_boxes(root, 0.0, 0, root))
    depth = max(row for row, _ in boxes) + 1
    size = f'viewBox="0 0 {_WIDTH} {depth * _ROW}" width="{_WIDTH}" height="{depth * _ROW}"'
    drawn = "\n".join(box for _, box in boxes)
    return f'<svg {size} role="img" aria-label="Differential flame graph">\n{drawn}\n</svg>'.replace(
        "UNIT", base.unit
    )


def _tree(base: Profile, head: Profile) -> _Node:
    root = _Node("all")
    for side, profile in (("base", base), ("head", head)):
        for stack, value in profile.spent.items():
            node = root
            setattr(node, side, getattr(node, side) + value)
            for name in stack[:_DEEPEST]:
                node = node.children.setdefault(name, _Node(name))
                setattr(node, side, getattr(node, side) + value)
    return root


def _boxes(node: _Node, left: float, row: int, root: _Node) -> Iterator[tuple[int, str]]:
    width = _WIDTH * node.both / root.both
    if width < _NARROWEST:
        return
    yield row, _box(node, left, width, row, root)
    for child in sorted(node.children.values(), key=lambda one: one.name):
        yield from _boxes(child, left, row + 1, root)
        left += _WIDTH * child.both / root.both


def _box(node: _Node, left: float, width: float, row: int, root: _Node) -> str:
    more = node.head - node.base
    share = min(1.0, abs(more) / (max(root.base, root.head) or 1) * 4)
    pale = round(236 - 150 * share)
    colour = f"rgb(245,{pale},{pale})" if more > 0 else f"rgb({pale},{pale},245)"
    colour = "rgb(236,236,236)" if share < 0.04 else colour
    unit = "UNIT"
    title = f"{node.name}: base {number(node.base)} {unit}, head {number(node.head)} {unit}, {signed(more)} {unit}"
    room = int((width - 6) / _LETTER)
    label = node.name if len(node.name) <= room else f"{node.name[: room - 1]}…" if room > 3 else ""
    text = f'<text x="{left + 3:.1f}" y="{row * _ROW + 12}">{in_html(label)}</text>' if label else ""
    return (
        f'<g><title>{in_html(title)}</title><rect x="{left:.1f}" y="{row * _ROW}" width="{max(width - 0.5, 0.5):.1f}" '
        f'height="{_ROW - 1}" fill="{colour}"/>{text}</g>'
    )
