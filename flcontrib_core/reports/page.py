"""What every page that leaves the house shares: one file, its style inside, no script, no outside request."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape

from flcontrib_core.charts import CHART_RULES, DARK, FONT, LIGHT, Chart, Palette, dark_rules
from flcontrib_core.words.numbers import visible


def _variables(p: Palette) -> str:
    """The palette as the page's style names it."""
    return ";".join(f"--{name.replace('_', '-')}:{value}" for name, value in vars(p).items() if isinstance(value, str))


_COLOURS = (
    f":root{{color-scheme:light dark;{_variables(LIGHT)}}}"
    f"@media screen and (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}"
)

_PAGE_STYLE = (
    "*{box-sizing:border-box}html{background:var(--page)}"
    "body{margin:0 auto;max-width:1080px;padding:40px 28px 64px;background:var(--page);color:var(--ink);"
    ""
    f"font:.94rem/1.5 {FONT};"
    "overflow-wrap:anywhere}"
    "h1{font-size:1.75rem;line-height:1.25;font-weight:600;margin:6px 0 8px}"
    "h2{font-size:1.25rem;font-weight:600;margin:44px 0 10px}h3{font-size:1.05rem;font-weight:600;margin:0 0 6px}"
    "p{margin:0 0 10px}.second{color:var(--secondary)}.small{font-size:.87rem}"
    ".crumbs{color:var(--secondary);font-size:.87rem;margin:0}"
    ".badges{display:flex;flex-wrap:wrap;gap:8px;margin:12px 0}"
    ".badge{border-radius:6px;padding:2px 9px;background:var(--soft);color:var(--secondary);font-size:.87rem}"
    ".badge.alert{background:var(--alert-soft);color:var(--alert)}"
    ".badge.care{background:var(--care-soft);color:var(--care)}"
    ".card{border:1px solid var(--border);border-radius:8px;padding:18px 20px;margin:0 0 14px}"
    ".pair{display:grid;grid-template-columns:1fr 1fr;gap:14px;margin:12px 0 0}"
    ".pair>div{border-radius:8px;padding:14px 16px;background:var(--soft)}"
    "p+h3{margin-top:14px}.pair+p{margin:12px 0 0}.pair ul{margin:0;padding-left:1.1em}.pair li{margin:0 0 6px}"
    ".picture{margin:6px 0 0}"
    "table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}"
    "th{text-align:left;overflow-wrap:normal}"
    "th{font-weight:600;color:var(--secondary);border-bottom:1px solid var(--axis)}"
    "th,td{padding:5px 12px 5px 0;vertical-align:top}td{border-bottom:1px solid var(--border)}"
    "td:first-child{min-width:min(11em,30vw)}"
    "td.n,th.n{text-align:right;white-space:nowrap}.wide{overflow-x:auto}"
    "code,pre{font:.82rem/1.5 ui-monospace,'SF Mono',Menlo,Consolas,monospace}"
    "pre{background:var(--soft);border-radius:8px;padding:12px 14px;white-space:pre-wrap;margin:0 0 10px}"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:4px 18px;margin:0;font-size:.9rem}"
    ""
    "dl.two{grid-template-columns:max-content 1fr max-content 1fr}dl+*,ul+h3{margin-top:14px}"
    "dt{color:var(--secondary)}dd{margin:0}footer{margin-top:44px;color:var(--secondary);font-size:.87rem}"
    "details summary{cursor:pointer;color:var(--secondary);font-size:.9rem;margin:8px 0}"
    ".harm-word{color:var(--harm)}.help-word{color:var(--help)}"
    "@media screen and (max-width:720px){body{padding:22px 16px 40px}.pair{grid-template-columns:1fr}"
    "dl,"
    "dl.two{grid-template-columns:1fr}dd{margin-bottom:6px}}"
    "@media print{html{font-size:11px}body{max-width:none;padding:0}h2{margin-top:22px}"
    ".card,.picture,tr,.pair{break-inside:avoid}h2,h3{break-after:avoid}"
    ".wide{overflow:visible}"
    ".onward{break-before:page}"
    "*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}@page{margin:15mm 14mm}"
)
STYLE = _COLOURS + CHART_RULES + dark_rules() + _PAGE_STYLE
TWIN_NAME, DIGEST_NAME = "flcontrib-twin", "flcontrib-report-digest"


def markup(text: str) -> str:
    """Text for HTML: made visible, then escaped."""
    return escape(visible(text), quote=True)


def policy(style: str) -> str:
    """What the browser may do with a page of this style: show it. Scripts, pictures, fonts and requests it refuses
    itself, should a name ever slip through as markup."""
    fingerprint = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{fingerprint}'; base-uri 'none'; form-action 'none'"


def print_style(footer: str) -> str:
    """Page numbers on every printed page, and beside them what this is; only letters that CSS leaves as they are."""
    safe = "".join(c for c in footer if c.isascii() and (c.isalnum() or c in " -:.,"))
    numbers = '"page " counter(page) " of " counter(pages)'
    look = "font-size:8pt;color:#555"
    return f'@page{{@bottom-left{{content:"{safe}";{look}}}@bottom-right{{content:{numbers};{look}}}}}'


def page(title: str, parts: Iterable[str], twin: str, digest: str, footer: str = "") -> str:
    """One self-contained HTML document; its head names the JSON beside it and that JSON's digest.

    ``footer``: what stands at the foot of every printed page beside its number.
    """
    style = STYLE + print_style(footer)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(style)}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f'<meta name="{TWIN_NAME}" content="{markup(twin)}"><meta name="{DIGEST_NAME}" content="{markup(digest)}">'
        f"<title>{markup(title)}</title><style>{style}</style></head>\n<body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body></html>\n"
    )


def section(title: str, *parts: str, look: str = "") -> str:
    """A titled section; nothing at all where every part is empty."""
    inside = "".join(part for part in parts if part)
    kind = f' class="{look}"' if look else ""
    return f"<section{kind}><h2>{markup(title)}</h2>{inside}</section>" if inside else ""


def paragraph(words: str, look: str = "") -> str:
    """Words as a paragraph; nothing where there are none."""
    return f'<p class="{look}">{markup(words)}</p>' if words else ""


def badge(words: str, look: str = "") -> str:
    """A short label."""
    return f'<span class="badge {look}">{markup(words)}</span>'


def bullets(sentences: Sequence[str]) -> str:
    """Sentences as a list."""
    return "<ul>" + "".join(f"<li>{markup(s)}</li>" for s in sentences) + "</ul>"


def drawn(chart: Chart | None) -> str:
    """A chart inside the page; nothing where there is none."""
    return "" if chart is None else chart.inline()


def grid(header: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """A table; the first ``words`` columns are text to the left, the others numbers to the right."""
    looks = ["" if n < words else ' class="n"' for n in range(len(header))]
    head = "".join(f"<th{look}>{markup(h)}</th>" for look, h in zip(looks, header, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{look}>{markup(c)}</td>" for look, c in zip(looks, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def facts_list(pairs: Iterable[tuple[str, str]], look: str = "") -> str:
    """Terms and what they are."""
    return f'<dl class="{look}">' + "".join(f"<dt>{markup(k)}</dt><dd>{markup(v)}</dd>" for k, v in pairs) + "</dl>"


def command(words: str) -> str:
    """A command to be copied."""
    return f"<pre>{markup(words)}</pre>"


def flattened(record: dict[str, object], before: str = "") -> list[tuple[str, str]]:
    """Nested settings as lines: estimation.precision, 0.3."""
    lines: list[tuple[str, str]] = []
    for key, value in record.items():
        if isinstance(value, dict):
            lines += flattened(value, f"{before}{key}.")
        else:
            listed = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
            said = {None: "–", True: "yes", False: "no"}.get(listed) if isinstance(listed, bool | None) else str(listed)
            lines.append((f"{before}{key}", said or "–"))
    return lines
