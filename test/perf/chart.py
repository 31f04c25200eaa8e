"""Charts as SVG: panels with axes, lines, bars and a legend.

What test/perf/plot and test/sim/clos/plot.py draw with. Python's standard
library only. The background is white, so that a picture can be read on a dark
page too; lines differ in dashes and marks besides their colors.
"""
import math
from xml.sax.saxutils import escape

FONT = 'font-family="sans-serif" font-size="12"'
# color, dashes, mark: distinguishable without color vision, and in grey
STYLES = [
    ("#0072b2", "", "circle"),
    ("#d55e00", "", "square"),
    ("#009e73", "", "triangle"),
    ("#cc79a7", "6 3", "diamond"),
    ("#555555", "2 3", "circle"),
    ("#e69f00", "6 3", "square"),
    ("#56b4e9", "2 3", "triangle"),
    ("#8a5a2b", "8 3 2 3", "diamond"),
]
INK, FAINT, EDGE = "#222222", "#e2e2e2", "#999999"


def style_of(index):
    return STYLES[index % len(STYLES)]


def number(value):
    """As short as it can be read: 0.05, 1.5, 200, 20k, 4M"""
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            scale = 1e3 if letter == "k" else limit
            return f"{value / scale:.3g}{letter}"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def power_of_two(value):
    """Bytes and the like: 512, 4k, 1M"""
    for power, letter in ((30, "G"), (20, "M"), (10, "k")):
        if value >= 1 << power:
            return f"{value / (1 << power):.3g}{letter}"
    return f"{value:.3g}"


class Axis:
    """Values from low to high, linear or logarithmic to a base."""

    def __init__(self, low, high, base=0, show=number, ticks=None):
        self.low, self.high, self.base, self.show = low, high, base, show
        self.ticks = ticks or self._ticks()

    @staticmethod
    def around(values, base=0, zero=True, show=number):
        """An axis that holds all of values, with room above."""
        if base:
            values = [value for value in values if value > 0] or [1]
            low, high = min(values), max(values)
            if base == 2:
                return Axis(low, high if high > low else 2 * low, 2, show)
            low = 10 ** math.floor(math.log10(low) + 1e-9)
            high = max(values)
            for step in (1, 2, 5, 10):
                top = step * 10 ** math.floor(math.log10(high))
                if top >= high * 0.999:
                    break
            return Axis(low, top if top > low else 10 * low, 10, show)
        low, high = min(values, default=0), max(values, default=1)
        if zero:
            low, high = min(low, 0), max(high, 0)
        if low == high:
            high = low + 1
        step = Axis._step(high - low)
        return Axis(math.floor(low / step) * step,
                    math.ceil(high / step - 1e-9) * step, 0, show)

    @staticmethod
    def _step(span):
        raw = span / 5
        unit = 10 ** math.floor(math.log10(raw))
        return next(unit * step for step in (1, 2, 2.5, 5, 10)
                    if unit * step >= raw * 0.999)

    def _ticks(self):
        if not self.base:
            step = self._step(self.high - self.low)
            first = math.ceil(self.low / step - 1e-9)
            last = math.floor(self.high / step + 1e-9)
            return [step * i for i in range(first, last + 1)]
        powers = range(math.ceil(math.log(self.low, self.base) - 1e-9),
                       math.floor(math.log(self.high, self.base) + 1e-9) + 1)
        every = math.ceil(len(powers) / 8)
        ticks = [float(self.base) ** power for power in powers[::every]]
        if self.base == 10 and len(ticks) < 3:
            ticks = [step * tick for tick in ticks for step in (1, 2, 5)
                     if self.low * 0.999 <= step * tick <= self.high * 1.001]
        return ticks

    def share(self, value):
        """Where on the axis: 0 is its beginning, 1 its end."""
        if self.base:
            value = max(value, self.low * 1e-6)
            part = (math.log(value / self.low) / math.log(self.high / self.low))
        else:
            part = (value - self.low) / (self.high - self.low)
        return min(max(part, 0), 1)


class Panel:
    """Axes in a rectangle. Points are clipped to it."""

    def __init__(self, x, y, width, height, x_axis, y_axis, inset=8):
        self.x, self.y, self.width, self.height = x, y, width, height
        self.x_axis, self.y_axis, self.inset = x_axis, y_axis, inset
        self.parts = []

    def across(self, value):
        return (self.x + self.inset
                + self.x_axis.share(value) * (self.width - 2 * self.inset))

    def up(self, value):
        return self.y + self.height * (1 - self.y_axis.share(value))

    def frame(self, title="", with_labels=True):
        for tick in self.y_axis.ticks:
            y = self.up(tick)
            self.parts.append(f'<path d="M{self.x:.1f} {y:.1f}h{self.width}" '
                              f'stroke="{FAINT}"/>')
            if with_labels:
                self.parts.append(text(self.x - 6, y + 4,
                                       self.y_axis.show(tick), "end"))
        self.parts.append(
            f'<rect x="{self.x}" y="{self.y}" width="{self.width}" '
            f'height="{self.height}" fill="none" stroke="{EDGE}"/>')
        for tick in self.x_axis.ticks if self.x_axis else ():
            self.parts.append(text(self.across(tick),
                                   self.y + self.height + 16,
                                   self.x_axis.show(tick)))
        if title:
            self.parts.append(text(self.x + self.width / 2, self.y - 8, title))

    def mark_level(self, value, words=""):
        """A line across, e.g. a target"""
        y = self.up(value)
        self.parts.append(
            f'<path d="M{self.x} {y:.1f}h{self.width}" stroke="{INK}" '
            'stroke-dasharray="3 3"/>')
        if words:
            self.parts.append(text(self.x + self.width - 4, y - 4, words, "end"))

    def line(self, points, style):
        color, dashes, _ = style
        where = [(self.across(x), self.up(y)) for x, y in sorted(points)]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in where)
        self.parts.append(f'<path d="M{path}" fill="none" stroke="{color}" '
                          f'stroke-width="2"{dash(dashes)}/>')
        self.parts += [mark(x, y, style) for x, y in where]

    def bars(self, index, count, heights, style):
        """Bar number index of count in each group; heights may hold None"""
        group = (self.width - 2 * self.inset) / max(len(heights), 1)
        width = group * 0.8 / count
        base = self.up(max(self.y_axis.low, 0))
        for i, height in enumerate(heights):
            if height is None:
                continue
            x = self.x + self.inset + group * (i + 0.1) + index * width
            y = self.up(height)
            self.parts.append(
                f'<rect x="{x:.1f}" y="{min(y, base):.1f}" '
                f'width="{max(width - 1, 1):.1f}" '
                f'height="{abs(base - y):.1f}" fill="{style[0]}"/>')

    def groups(self, names):
        """Names below the groups of bars, in two heights if they are long"""
        group = (self.width - 2 * self.inset) / max(len(names), 1)
        long = max(map(len, names), default=0) * 6.5 > group
        for i, name in enumerate(names):
            down = 16 + (14 if long and i % 2 else 0)
            self.parts.append(text(self.x + self.inset + group * (i + 0.5),
                                   self.y + self.height + down, name))


def dash(dashes):
    return f' stroke-dasharray="{dashes}"' if dashes else ""


def text(x, y, words, anchor="middle", extra=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" {FONT} fill="{INK}" '
            f'text-anchor="{anchor}"{extra}>{escape(words)}</text>')


def sideways(x, y, words):
    return text(x, y, words, "middle", f' transform="rotate(-90 {x:.1f} {y:.1f})"')


def mark(x, y, style):
    color, shape = style[0], style[2]
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>'
    path = {"square": "m-2.8 -2.8h5.6v5.6h-5.6z",
            "triangle": "m0 -3.6l3.4 6h-6.8z",
            "diamond": "m0 -3.8l3.8 3.8l-3.8 3.8l-3.8 -3.8z"}[shape]
    return f'<path d="M{x:.1f} {y:.1f}{path}" fill="{color}"/>'


def legend(x, y, entries, width, is_bars=False):
    """Entries (name, style) in rows no wider than width: parts, and their
    height."""
    parts, left, row = [], 0, 0
    for name, style in entries:
        need = 46 + 7 * len(name)
        if left and left + need > width:
            left, row = 0, row + 1
        at, level = x + left, y + 18 * row
        if is_bars:
            parts.append(f'<rect x="{at + 14:.1f}" y="{level - 6:.1f}" width="12" '
                         f'height="12" fill="{style[0]}"/>')
        else:
            parts.append(f'<path d="M{at:.1f} {level:.1f}h28" '
                         f'stroke="{style[0]}" stroke-width="2"'
                         f'{dash(style[1])}/>')
            parts.append(mark(at + 14, level, style))
        parts.append(text(at + 34, level + 4, name, "start"))
        left += need
    return parts, 18 * (row + 1)


def document(width, height, parts):
    return "\n".join(
        [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" '
         f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">',
         f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>']
        + parts + ["</svg>", ""])
