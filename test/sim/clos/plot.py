#!/usr/bin/env python3
"""plot.py CSV SVG: draws what the simulated Clos (clos) has printed.

A column for each scenario, a row for throughput and one for the tail, a line
for each policy over the number of paths. Standard library only.
"""
import math
import sys

SCENARIOS = [
    ("full", "all hosts send 8 MiB puts"),
    ("half", "half of the hosts send"),
    ("slow", "... and one spine of 16 is at a tenth"),
    ("small-slow", "... and puts are of 1 MiB"),
]
POLICIES = [  # name, label, colour, dashes: rr and least mostly coincide
    ("fixed", "fixed split", "#777777", ""),
    ("rr", "rr", "#1f77b4", ""),
    ("least", "least", "#ff7f0e", "5 4"),
    ("left", "left", "#2ca02c", ""),
]
WIDTH, HEIGHT = 250, 190   # of a panel
LEFT, TOP, GAP = 62, 64, 24
FONT = 'font-family="sans-serif" font-size="12"'


class Panel:
    """Axes at (x, y): log2 of the paths, and a value."""

    def __init__(self, x, y, low, high, is_log):
        self.x, self.y = x, y
        self.low, self.high, self.is_log = low, high, is_log
        self.parts = []

    def at(self, paths, value):
        part = math.log2(paths) / 6
        if self.is_log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        share = min(max(share, 0), 1)
        return (self.x + 8 + part * (WIDTH - 16),
                self.y + HEIGHT * (1 - share))

    def text(self, x, y, words, anchor="middle", extra=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" {FONT} '
                          f'text-anchor="{anchor}"{extra}>{words}</text>')

    def frame(self, ticks, with_labels, unit):
        self.parts.append(
            f'<rect x="{self.x}" y="{self.y}" width="{WIDTH}" '
            f'height="{HEIGHT}" fill="none" stroke="#999"/>')
        for tick in ticks:
            y = self.at(1, tick)[1]
            self.parts.append(
                f'<path d="M{self.x} {y:.1f}h{WIDTH}" stroke="#ddd"/>')
            if with_labels:
                self.text(self.x - 6, y + 4, f"{tick:g}{unit}", "end")
        for power in range(7):
            x = self.at(2 ** power, self.low)[0]
            self.text(x, self.y + HEIGHT + 16, str(2 ** power))

    def line(self, points, colour, dashes):
        where = [self.at(*point) for point in sorted(points)]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in where)
        dash = f' stroke-dasharray="{dashes}"' if dashes else ""
        self.parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" '
                          f'stroke-width="2"{dash}/>')
        for x, y in where:
            self.parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>')


def read(name):
    """{(scenario, policy): {paths: [row...]}}"""
    table = {}
    with open(name, encoding="ascii") as file:
        columns = file.readline().strip().split(",")
        for line in file:
            row = dict(zip(columns, line.strip().split(",")))
            key = (row["name"], row["policy"])
            table.setdefault(key, {}).setdefault(int(row["paths"]),
                                                 []).append(row)
    return table


def series(table, scenario, policy, column, factor=1):
    """Means over the seeds: [(paths, value)...]"""
    return [(paths, factor * sum(float(row[column]) for row in rows) / len(rows))
            for paths, rows in table.get((scenario, policy), {}).items()]


def draw_row(table, y, column, axis, title):
    low, high, is_log, factor, ticks, unit = axis
    parts = []
    for i, (scenario, _) in enumerate(SCENARIOS):
        panel = Panel(LEFT + i * (WIDTH + GAP), y, low, high, is_log)
        panel.frame(ticks, i == 0, unit)
        for policy, _, colour, dashes in POLICIES:
            points = series(table, scenario, policy, column, factor)
            if points:
                panel.line(points, colour, dashes)
        if i == 0:
            middle = y + HEIGHT / 2
            panel.text(16, middle, title, "middle",
                       f' transform="rotate(-90 16 {middle})"')
        parts += panel.parts
    return parts


def draw(table):
    width = LEFT + len(SCENARIOS) * (WIDTH + GAP)
    height = TOP + 2 * (HEIGHT + 44) + 8
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
             f'height="{height}" viewBox="0 0 {width} {height}">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for i, (_, label, colour, dashes) in enumerate(POLICIES):
        x = LEFT + i * 130
        dash = f' stroke-dasharray="{dashes}"' if dashes else ""
        parts.append(f'<path d="M{x} 20h28" stroke="{colour}" '
                     f'stroke-width="2"{dash}/><text x="{x + 34}" y="24" '
                     f'{FONT}>{label}</text>')
    for i, (_, title) in enumerate(SCENARIOS):
        x = LEFT + i * (WIDTH + GAP) + WIDTH / 2
        parts.append(f'<text x="{x}" y="{TOP - 12}" {FONT} '
                     f'text-anchor="middle">{title}</text>')
    parts += draw_row(table, TOP, "mean",
                      (0, 100, False, 100, [0, 20, 40, 60, 80, 100], "%"),
                      "mean throughput, of the link")
    parts += draw_row(table, TOP + HEIGHT + 44, "p99",
                      (1, 20, True, 1, [1, 2, 5, 10, 20], "x"),
                      "p99 of a put, of the ideal time")
    parts.append(f'<text x="{width / 2}" y="{height - 6}" {FONT} '
                 'text-anchor="middle">paths of each endpoint</text></svg>')
    return "\n".join(parts) + "\n"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    picture = draw(read(sys.argv[1]))
    with open(sys.argv[2], "w", encoding="ascii") as file:
        file.write(picture)


if __name__ == "__main__":
    main()
