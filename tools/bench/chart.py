"""A chart of lines as SVG, with nothing but the standard library."""
import math

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 172, 56, 52
COLOURS = ("#1b6ca8", "#c8553d", "#6a8d3a", "#7a5195", "#b8860b", "#4a4a4a")
FONT = "font-family='system-ui, sans-serif'"


def escape(text):
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("'", "&#39;")


def short(value):
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def steps(least, most, count=5):
    """Round numbers from `least` to `most`."""
    size = 10 ** math.floor(math.log10((most - least) / count))
    size *= next(factor for factor in (1, 2, 5, 10) if (most - least) / (size * factor) <= count + 1)
    first = math.ceil(least / size - 1e-9)
    return [i * size for i in range(first, math.floor(most / size + 1e-9) + 1)]


def powers(least, most):
    """Powers of ten, with 2 and 5 of them where these would be few."""
    for factors in (1,), (1, 2, 5):
        marks = [factor * 10**e for e in range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1) for factor in factors
                 if least * 0.999 <= factor * 10**e <= most * 1.001]
        if len(marks) > 3:
            break
    return marks


class Scale:
    def __init__(self, values, first, last, log=False, origin=True, room=1.06):
        self.log, self.first, self.last = log, first, last
        least, most = min(values), max(values)
        self.least = least if log or not origin else min(0, least)
        self.most = most * room if most > self.least else self.least + 1
        self.marks = powers(self.least, self.most) if log else steps(self.least, self.most)

    def __call__(self, value):
        if self.log:
            part = math.log(value / self.least) / math.log(self.most / self.least)
        else:
            part = (value - self.least) / (self.most - self.least)
        return self.first + part * (self.last - self.first)


def apart(wanted, gap, most):
    """Places near the wanted ones, in their order, at least `gap` from each other."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = {}
    last = -1e9
    for i in order:
        last = placed[i] = max(wanted[i], last + gap)
    over = max(0, last - most)
    return [placed[i] - over for i in range(len(wanted))]


def line_chart(title, subtitle, x_name, y_name, series, log_x=False, log_y=False, x_marks=None, limit=None):
    """`series`: (label, [(x, y)...], dashed). `limit`: (label, y), a goal. Text of an SVG file."""
    xs = [x for _, points, _ in series for x, _ in points]
    ys = [y for _, points, _ in series for _, y in points] + ([limit[1]] if limit else [])
    x = Scale(xs, LEFT, WIDTH - RIGHT, log_x, origin=False, room=1)
    y = Scale(ys, HEIGHT - BOTTOM, TOP, log_y)
    out = [f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{HEIGHT}' viewBox='0 0 {WIDTH} {HEIGHT}' role='img'>",
           f"<title>{escape(title)}</title>", f"<rect width='{WIDTH}' height='{HEIGHT}' fill='#ffffff'/>"]

    def text(at_x, at_y, what, size=12, anchor="start", colour="#333333", more=""):
        out.append(f"<text x='{at_x:.1f}' y='{at_y:.1f}' {FONT} font-size='{size}' text-anchor='{anchor}' fill='{colour}' {more}>"
                   f"{escape(what)}</text>")

    text(16, 24, title, 15, more="font-weight='600'")
    text(16, 42, subtitle, 12, colour="#666666")
    for mark in y.marks:
        out.append(f"<line x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{y(mark):.1f}' y2='{y(mark):.1f}' stroke='#e4e4e4'/>")
        text(LEFT - 8, y(mark) + 4, short(mark), anchor="end", colour="#666666")
    for mark in x_marks or x.marks:
        out.append(f"<line x1='{x(mark):.1f}' x2='{x(mark):.1f}' y1='{HEIGHT - BOTTOM}' y2='{HEIGHT - BOTTOM + 5}' stroke='#999999'/>")
        text(x(mark), HEIGHT - BOTTOM + 19, short(mark), anchor="middle", colour="#666666")
    out.append(f"<line x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{HEIGHT - BOTTOM}' y2='{HEIGHT - BOTTOM}' stroke='#999999'/>")
    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, x_name, anchor="middle")
    text(0, 0, y_name, anchor="middle", more=f"transform='translate(16 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)'")
    labels = [(label, points[-1][1]) for label, points, _ in series] + ([limit] if limit else [])
    places = apart([y(value) + 4 for _, value in labels], 15, HEIGHT - BOTTOM + 4)
    if limit:
        out.append(f"<line x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{y(limit[1]):.1f}' y2='{y(limit[1]):.1f}' stroke='#999999' stroke-dasharray='2 4'/>")
        text(WIDTH - RIGHT + 10, places[-1], limit[0], colour="#777777")
    for i, (label, points, dashed) in enumerate(series):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points)
        dash = " stroke-dasharray='6 4'" if dashed else ""
        out.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2'{dash}/>")
        if len(points) <= 24:
            out.extend(f"<circle cx='{x(a):.1f}' cy='{y(b):.1f}' r='3' fill='{colour}'/>" for a, b in points)
        text(WIDTH - RIGHT + 10, places[i], label, colour=colour)
    return "\n".join(out) + "\n</svg>\n"
