#!/usr/bin/env python3
"""NeMo's published tables of training to rows that `foretrace validate --mappings` reads.

SOURCE is a page of performance in Markdown, or a folder that has some: docs/performance-summary*.md
of NVIDIA-NeMo/Megatron-Bridge, docs/performance-summary.md (or .mdx) of NVIDIA-NeMo/Automodel. What
stands above a table (container, task, model, system, precision) is put into each of its rows; of two
figures in a cell, the second in parentheses, two rows are made. FP8 of Megatron Bridge on Blackwell
has present scales (its recipes fp8_cs); pages without a column of precision are of FP8, figures in
parentheses there of scales by blocks.
"""
import csv
import io
import pathlib
import re
import sys

import import_common as common

COLUMNS = ["source", "table", "model", "seq", "gpus", "gpu", "gpus_per_node", "tp", "pp", "cp", "vp", "ep",
           "micro_batch", "global_batch", "precision", "sharding", "framework", "step_s",
           "tokens_per_s_per_gpu", "date", "note"]
OF_HEADERS = {"model": "model", "system": "gpu", "#-gpus": "gpus", "#gpus": "gpus", "precision": "precision",
              "gbs": "global_batch", "mbs": "micro_batch", "sequence length": "seq", "seq length": "seq",
              "tp": "tp", "pp": "pp", "cp": "cp", "vp": "vp", "ep": "ep",
              "tokens / sec / gpu": "tokens_per_s_per_gpu", "tokens/sec/gpu": "tokens_per_s_per_gpu",
              "time per global step (s)": "step_s", "kernel optimizations": "note", "fsdp": "fsdp"}
NAMES = {"LLAMA3_8B": "llama3-8b", "LLAMA3_70B": "llama3-70b", "LLAMA3.1_405B": "llama3.1-405b", "DeepSeekV3": "deepseek-v3",
         "DeepSeek V3 671B": "deepseek-v3", "Qwen3_30B_a3B": "qwen3-30b-a3b", "Qwen3 MoE 30B": "qwen3-30b-a3b",
         "Qwen3_235B_a22B": "qwen3-235b-a22b", "Kimi_K2": "kimi-k2", "Kimi K2": "kimi-k2",
         "GPT OSS 120B": "gpt-oss-120b", "Nemotron_3_Nano": "nemotron-3-nano-30b-a3b",
         "Nemotron V3 Nano 30B": "nemotron-3-nano-30b-a3b",
         "Nemotron_3_Super": "nemotron-3-super-120b-a12b", "Nemotron_3_Ultra": "nemotron-3-ultra-550b-a55b",
         "Nemotron_3_5_Lightning": "nemotron-3.5-lightning-30b-a3b",
         "Nemotron V3 Super 120B": "nemotron-3-super-120b-a12b", "Nemotron V3 Ultra 550B": "nemotron-3-ultra-550b-a55b",
         "Llama3 8B": "llama3.1-8b", "Llama3 70B": "llama3.1-70b"}


def cells(line):
    """Of a row of a table, without the marks of footnotes."""
    return [re.sub(r"\[\^[^\]]*\]", "", cell).strip() for cell in line.strip().strip("|").split("|")]


class Page:
    """What the headings above a table have said."""

    def __init__(self, bridge):
        self.bridge = bridge
        self.above = {"framework": "NeMo Megatron Bridge" if bridge else "NeMo AutoModel"}
        self.task = ""

    def heading(self, text):
        if match := re.match(r"(\S+) NeMo Container", text):
            self.above["date"] = "v" + match[1]
        elif match := re.match(r"(.*?)\s*Performance$", text):
            self.task = {"SFT": "SFT", "LoRA": "LoRA", "Fine-Tuning (LoRA)": "LoRA rank 16"}.get(match[1], "")
        elif match := re.match(r"Model: (.*)", text):
            self.above["model"] = match[1]
        elif match := re.match(r"System: DGX-([^\s,]+)(?:, Precision: (\S+))?", text):
            self.above["gpu"], self.above["precision"] = match[1], match[2] or ""

    def rows(self, header, line, place):
        """One, or two where another precision's figures are in parentheses: "FP8-CS (FP8-MX)"."""
        both = [re.fullmatch(r"(\S+) \((\S+)\)", cell) if name != "Model" else None
                for name, cell in zip(header, cells(line))]
        for half in (1, 2) if any(both) else (0,):
            values = [pair[half] if pair else cell for pair, cell in zip(both, cells(line))]
            yield self.row(header, values, place, blocks=half == 2)

    def row(self, header, values, place, blocks):
        stated = {OF_HEADERS[name.lower()]: value for name, value in zip(header, values)
                  if name.lower() in OF_HEADERS}
        known = {**self.above, **{name: value for name, value in stated.items() if value.lower() not in ("", "n/a", "-")}}
        known["gpu"] = known["gpu"].removeprefix("DGX-")
        model, _, said = known["model"].partition("(")
        model = model.strip().removesuffix(" 2-node")
        known["model"] = NAMES.get(model, model)
        if re.match(r"\d\d\.\d\d", said):
            known["date"] = "v" + said.rstrip(")")
        if self.bridge and not known.get("precision"):
            known["precision"] = "FP8" if not blocks else "FP8-SC" if known["gpu"] == "H100" else "MXFP8"
        if self.bridge and known["precision"] == "FP8" and known["gpu"] != "H100":
            known["precision"] = "FP8-CS"
        sharded = known.pop("fsdp", "0") != "0"
        if self.bridge:
            known["sharding"] = "FSDP" if sharded else ""
        for name in ("tokens_per_s_per_gpu", "gpus"):
            known[name] = known.get(name, "").replace(",", "")
        if "step_s" in known:
            known["tokens_per_s_per_gpu"] = ""
        known["gpus_per_node"] = "" if known["gpu"].startswith("G") else "8"
        known["note"] = "; ".join(word for word in (known.get("note", ""), self.task) if word)
        return {**known, "source": "Megatron Bridge" if self.bridge else "AutoModel", "table": place}


def rows_of(path):
    page = Page(bridge="tokens / sec / gpu" in path.read_text("utf-8").lower())
    header = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        common.reading(f"{path}:{number}")
        if line.startswith("#"):
            page.heading(line.lstrip("# ").strip())
        elif line.startswith("|") and re.fullmatch(r"[|:\- ]+", line):
            continue
        elif line.startswith("|") and not header:
            header = cells(line)
        elif line.startswith("|"):
            yield from page.rows(header, line, f"{path.name}:{number}")
        else:
            header = []


def run(source, output):
    source = pathlib.Path(source)
    pages = sorted(source.glob("performance-summary*.md*")) if source.is_dir() else [source]
    rows = [row for page in pages for row in rows_of(page)]
    if not rows:
        common.fail(f"{source}: has no table of performance; is this the right source?")
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    target = output / "nemo-training-rows.csv"
    common.write_file(target, text.getvalue())
    print(f"{target}: {len(rows)} rows", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(common.main(__doc__, run))
