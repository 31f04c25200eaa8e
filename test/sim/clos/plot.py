#!/usr/bin/env python3
"""plot.py CSV SVG: draws what the simulated Clos (clos) has printed.

A column for each scenario, a row for throughput and one for the tail, a line
for each policy over the number of paths. Standard library only.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)),
                                "../../perf"))
import chart  # noqa: E402

SCENARIOS = [
    ("full", "all hosts send 8 MiB puts"),
    ("half", "half of the hosts send"),
    ("slow", "... and one spine of 16 is at a tenth"),
    ("small-slow", "... and puts are of 1 MiB"),
]
POLICIES = [
    ("fixed", "fixed split", chart.STYLES[4]),
    ("rr", "rr", chart.STYLES[0]),
    ("left", "left", chart.STYLES[2]),
]
WIDTH, HEIGHT = 250, 190   # of a panel
LEFT, TOP, GAP = 62, 64, 24
PATHS = [2 ** power for power in range(7)]
ROWS = [  # column, factor, axis, title
    ("mean", 100,
     chart.Axis(0, 100, show=lambda value: f"{value:g}%"),
     "mean throughput, of the link"),
    ("p99", 1,
     chart.Axis(1, 20, 10, lambda value: f"{value:g}x", [1, 2, 5, 10, 20]),
     "p99 of a put, of the ideal time"),
]


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


def series(table, scenario, policy, column, factor):
    """Means over the seeds: [(paths, value)...]"""
    return [(paths, factor * sum(float(row[column]) for row in rows) / len(rows))
            for paths, rows in table.get((scenario, policy), {}).items()]


def draw_row(table, y, column, factor, axis, title):
    parts = [chart.sideways(16, y + HEIGHT / 2, title)]
    across = chart.Axis(1, 64, 2, ticks=PATHS)
    for i, (scenario, _) in enumerate(SCENARIOS):
        panel = chart.Panel(LEFT + i * (WIDTH + GAP), y, WIDTH, HEIGHT, across,
                            axis)
        panel.frame(with_labels=i == 0)
        for policy, _, style in POLICIES:
            points = series(table, scenario, policy, column, factor)
            if points:
                panel.line(points, style)
        parts += panel.parts
    return parts


def draw(table):
    width = LEFT + len(SCENARIOS) * (WIDTH + GAP)
    height = TOP + 2 * (HEIGHT + 44) + 8
    parts, _ = chart.legend(LEFT, 20, [entry[1:] for entry in POLICIES], width)
    for i, (_, title) in enumerate(SCENARIOS):
        parts.append(chart.text(LEFT + i * (WIDTH + GAP) + WIDTH / 2, TOP - 12,
                                title))
    for i, row in enumerate(ROWS):
        parts += draw_row(table, TOP + i * (HEIGHT + 44), *row)
    parts.append(chart.text(width / 2, height - 6, "paths of each endpoint"))
    return chart.document(width, height, parts)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    picture = draw(read(sys.argv[1]))
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(picture)


if __name__ == "__main__":
    main()
