"""Pages of answers that scripts make: the parts and the policy of `foretrace --html` (simulator/console/page.cpp)."""
import base64
import hashlib
import html
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGED = pathlib.Path("/usr/share/javascript/chart.js/chart.min.js")


def tables_of(markdown):
    """[{title, about, rows: [{column: cell}]}] of a document: every table with the heading above it."""
    tables, title, about, header = [], "", "", None
    for line in markdown.splitlines():
        if line.startswith("#"):
            title, about, header = line.lstrip("# "), "", None
        elif line.startswith("|"):
            cells = [c.strip() for c in line.strip("|").split("|")]
            if header is None:
                header = cells
                tables.append({"title": title, "about": about.strip(), "rows": []})
            elif not all(set(c) <= set("-:") for c in cells):
                tables[-1]["rows"].append(dict(zip(header, cells)))
        else:
            header = None
            about += line + " "
    return tables


def write_page(command, document, path):
    parts = {name: (ROOT / "simulator/console/pages" / name).read_text()
             for name in ("page.css", "page.js", "inputs.js", "answers.js", "chart.licence")}
    own = ROOT / "simulator/console/pages/chart.min.js"
    charts = (own if own.exists() else PACKAGED).read_text()
    script = parts["page.js"] + parts["inputs.js"] + parts["answers.js"]

    def source(text):
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

    answer = json.dumps({"schema_version": 1, "command": command, **document})
    for c in "<>&":
        answer = answer.replace(c, f"\\u{ord(c):04x}")
    policy = (f"default-src 'none'; script-src {source(charts)} {source(script)}; style-src {source(parts['page.css'])}; "
              "img-src data:; base-uri 'none'; form-action 'none'")
    path.write_text(
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,"><title>foretrace {html.escape(command)}</title>\n'
        f'<style>{parts["page.css"]}</style></head>\n'
        "<body><noscript>This page needs JavaScript, which it brings along.</noscript>\n"
        f'<main id="page"></main>\n<script type="application/json" id="answer">{answer}</script>\n'
        f"<!--\n{parts['chart.licence']}\n-->\n<script>{charts}</script>\n<script>{script}</script></body></html>\n")
