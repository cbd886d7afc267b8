"""Rows of docs/accuracy.md that replay recordings (steps, durations from models, ablation), and their check."""
import json
import os
import subprocess
import sys

import answer_page

DLRM = "--trace $D/param-et_replay/dlrm_kineto.tar.gz --trace $D/param-et_replay/dlrm_pytorch_et.tar.gz"
CONTROL = "--trace $D/hta-traces/trace_diff/control --allow-missing-ranks"
RESNET = "--trace $D/kineto-tb_plugin"
NS = "--trace $D/hta-traces/ns_resolution_trace --allow-missing-ranks"
DF = "--trace $D/hta-traces/df_index_resolver --allow-missing-ranks"
NCCL = "--trace $D/hta-traces/nccl_parser_config --allow-missing-ranks"

ABLATED = [("DLRM-8", DLRM), ("control", CONTROL), ("ResNet-50", RESNET), ("ns_resolution", NS)]
GOALS = [
    ("DLRM-8, in-sample", DLRM, "0.5 % on every rank; starts 5 us median, 10 us p90"),
    ("DLRM-8, overheads of ranks 0-3 for 4-7", DLRM + " --overheads-from-ranks 0-3", "3 %"),
    ("control, in-sample", CONTROL, "5 % mean"),
    ("control, even to odd steps", CONTROL + " --overheads-from-steps even", "8 %"),
    ("ResNet-50, in-sample", RESNET, "0.5 % per step"),
    ("ResNet-50, even to odd steps", RESNET + " --overheads-from-steps even", "8 %"),
    ("ns_resolution, in-sample", NS, "0.5 %"),
    ("ns_resolution, even to odd steps", NS + " --overheads-from-steps even", "8 %"),
    ("df_index_resolver, even to odd steps", DF + " --overheads-from-steps even", "8 %"),
    ("nccl_parser_config, even to odd steps", NCCL + " --overheads-from-steps even", "8 %"),
]


# Durations from models; the calibration is that of the device in the trace's metadata.
LINEAR = "--trace $D/param-et_replay/linear_kineto.json.gz --trace $D/param-et_replay/linear_et.json.gz"
MODEL = " --durations model"
MODELLED = [
    ("DLRM-8 (V100)", DLRM + MODEL + " --calibration v100-sxm2-nvlink --platform dgx1-v100"),
    ("control (A100)", CONTROL + MODEL + " --calibration a100-sxm4-nvswitch"),
    ("ResNet-50 (V100)", RESNET + MODEL + " --calibration v100-sxm2-nvlink"),
    ("linear (RTX 2080 Ti)", LINEAR + MODEL),
] + [(f"{name} (H100)", f"--trace $D/traces/h100/{file}.json.gz" + MODEL +
      " --calibration h100-sxm5-nvswitch")
     for name, file in (("Qwen1.5", "Qwen_Qwen1.5-0.5B-Chat__1016005"),
                        ("OWLv2", "google_owlv2-large-patch14-ensemble__1016001"),
                        ("ViT", "Falconsai_nsfw_image_detection__1016002"),
                        ("TimeSformer", "facebook_timesformer-base-finetuned-k400__1016002"),
                        ("BERT", "gaunernst_bert-small-uncased__1016001"))]
# Recordings without shapes: kernels by their names and launches.
SHAPELESS = [
    ("ResNet (RTX 2080 Ti)", "--trace $D/param-et_replay/resnet_kineto.json.gz" + MODEL),
    ("ns_resolution (V100)", NS + MODEL + " --calibration v100-sxm2-nvlink"),
    ("df_index_resolver (V100)", DF + MODEL + " --calibration v100-sxm2-nvlink"),
    ("nccl_parser_config (A100)", NCCL + MODEL + " --calibration a100-sxm4-nvswitch"),
    ("AlexNet (A100)", "--trace $D/hta-traces/critical_path/alexnet --allow-missing-ranks" + MODEL +
     " --calibration a100-sxm4-nvswitch"),
    ("gpt-oss (B200)", "--trace $D/traces/b200/eager_trace.json.gz --allow-missing-ranks" + MODEL +
     " --calibration b200-sxm-nvswitch"),
]
# Copies of a host, by those of other steps or ranks of the same recording.
COPIES = [("control (A100)", "--trace $D/hta-traces/trace_diff/control --hold-out odd-steps"),
          ("DLRM-8 (V100)", "--trace $D/param-et_replay/dlrm_kineto.tar.gz --hold-out odd-ranks"),
          ("OWLv2 (H100)", "--trace $D/traces/h100/google_owlv2-large-patch14-ensemble__1016001"
           ".json.gz --hold-out every-third")]


class Runner:
    def __init__(self, foretrace, data):
        self.foretrace, self.data = foretrace, data
        self.environment = dict(os.environ, D=str(data), FORETRACE_REALDATA=str(data))

    def validate(self, arguments):
        done = subprocess.run(f"{self.foretrace} validate {arguments} --json", shell=True,
                              env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"accuracy: error: validate {arguments}: {done.stderr.strip()}")
        return json.loads(done.stdout)


def table(header, rows):
    return "\n".join(["| " + " | ".join(header) + " |", "|" + "---|" * len(header)] +
                     ["| " + " | ".join(row) + " |" for row in rows])


def blocked(result):
    shares = [100 * case["blocked_share"] for case in result["cases"] if case["judged"]]
    return f"{min(shares):.0f} to {max(shares):.0f} %" if shares else "-"


def other_definitions(result):
    """Mean errors of the step until its device work is done, and of its period."""
    errors = []
    for key in ("completion_error_percent", "period_error_percent"):
        known = [abs(case[key]) for case in result["cases"]
                 if case["judged"] and case[key] is not None]
        errors.append(f"{sum(known) / len(known):.2f} %" if known else "-")
    return errors


STEPS = ("Case", "Goal", "Steps", "Mean", "Max", "Done", "Period", "Starts", "Blocked share", "Command")
MODELLED_STEPS = ("Case", "Steps", "Mean", "Max", "Replay, mean", "Blocked share", "Command")
MODELLED_OPERATORS = ("Case", "Operator", "Calls", "Time %", "By time", "GMAE", "MAPE", "Bias of the sum", "Beyond", "GMAE alone", "Bias alone")


def goal_rows(runner, cases):
    for name, arguments, goal in cases:
        result = runner.validate(arguments)
        s = result["summary"]
        yield (name, goal, str(s["count"]), f"{s['mape_percent']:.2f} %",
               f"{s['max_percent']:.2f} %", *other_definitions(result),
               f"{s['kernel_start_median_us']:.1f} / {s['kernel_start_p90_us']:.1f} us",
               blocked(result), f"`validate {arguments}`")


def ablation_rows(runner, cases):
    columns = [{row["variant"]: row["mape_percent"]
                for row in runner.validate(arguments + " --ablation")["ablation"]}
               for _, arguments in cases]
    for variant in columns[0]:
        yield (variant, *(f"{column[variant]:.2f}" for column in columns))


def modelled_rows(results):
    for name, arguments, result in results:
        judged = [case for case in result["cases"] if case["judged"]]
        replay = [abs(case["replay_error_percent"]) for case in judged]
        s = result["summary"]
        yield (name, str(s["count"]), f"{s['mape_percent']:.2f} %", f"{s['max_percent']:.2f} %",
               f"{sum(replay) / max(len(replay), 1):.2f} %", blocked(result),
               f"`validate {arguments}`")


def alone(row):
    """GMAE and bias over the calls that ran alone."""
    if row["alone_count"] == 0:
        return "-", "-"
    return f"{row['alone_gmae_percent']:.1f}", f"{row['alone_bias_percent']:+.1f}"


def copy_rows(runner):
    for name, arguments in COPIES:
        words = arguments.replace("$D", str(runner.data)).split()
        done = subprocess.run([runner.foretrace, "calibrate", "memory", *words, "--json"],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"accuracy: error: {name}: {done.stderr.strip()}")
        for model in json.loads(done.stdout)["models"][:-1]:
            yield (name, model["name"], str(model["count"]),
                   f"{model['gmae_percent']:.1f} / {model['mape_percent']:.1f}",
                   f"`calibrate memory {arguments}`")


def duration_rows(results):
    for name, _, result in results:
        for row in result["durations"]:
            if row["share"] < 0.005:
                continue
            beyond = 100 * row["extrapolated_count"] / max(row["count"], 1)
            yield (name, row["operator"], str(row["count"]), f"{100 * row['share']:.1f}",
                   f"{row['time_gmae_percent']:.1f}",
                   f"{row['gmae_percent']:.1f}", f"{row['mape_percent']:.1f}",
                   f"{row['bias_percent']:+.1f}", f"{beyond:.0f}", *alone(row))


def at_hand(runner, cases):
    """Those of (name, arguments, ...) of which all data are there."""
    def there(arguments):
        return all((runner.data / word.removeprefix("$D/")).exists() for word in arguments.split() if word.startswith("$D/"))
    return [case for case in cases if there(case[1])]


def tables_at_hand(runner):
    """{(heading, number of the table under it): {(row's first cells): {column: cell}}} of what is cheap to make anew."""
    steps, ablated = at_hand(runner, GOALS), at_hand(runner, ABLATED)
    modelled = [(name, arguments, runner.validate(arguments)) for name, arguments in at_hand(runner, MODELLED)]
    rows = {("Steps", 0): (STEPS, 1, goal_rows(runner, steps)),
            ("Durations from models", 0): (MODELLED_STEPS, 1, modelled_rows(modelled)),
            ("Durations from models", 1): (MODELLED_OPERATORS, 2, duration_rows(modelled)),
            ("Ablation", 0): (("Variant", *(name for name, _ in ablated)), 1, ablation_rows(runner, ablated) if ablated else [])}
    return {at: {row[:keys]: dict(zip(columns, row)) for row in made} for at, (columns, keys, made) in rows.items()}


def check(tables, page):
    """Where the page's cells are not those of `tables` (tables_at_hand): (table, row, column, in the page, now)."""
    numbers, written = {}, {}
    for table_of in answer_page.tables_of(page):
        number = numbers.get(table_of["title"], 0)
        numbers[table_of["title"]] = number + 1
        written[table_of["title"], number] = table_of["rows"]
    for at, rows in tables.items():
        for key, cells in rows.items():
            row = next((r for r in written[at] if tuple(r.values())[:len(key)] == key), None)
            for column, cell in cells.items():
                if row is None or row.get(column) != cell:
                    yield at[0], ", ".join(key), column, row and row.get(column), cell
        names = {key[0] for key in rows}
        for row in written[at]:  # operators of a recording that are there no longer
            key = tuple(row.values())[:len(next(iter(rows), ()))]
            if key[:1] and key[0] in names and key not in rows:
                yield at[0], ", ".join(key), "row", "there", "gone"
