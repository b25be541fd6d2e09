"""The result of scripts/gpu_check.sh: one JSON object, and the short table made from it.

  schema     1
  card       name, architecture ("90"), num_multiprocessors, memory_bytes, count
  versions   nvcc, torch (or null), attention (which library of fused attention was built in, or null)
  parts      by name: status (passed, failed, skipped, out of time), seconds, note
  tests      passed, failed, skipped: counts of gpu_tests; failures: their names
  golden     a list: case, precision, layout ("tp2"), comm, loss_error and grad_norm_error (largest
             relative distance from the float64 reference over ten steps), tolerance, passed
  sanitizer  by tool: errors (null: it does not work here), note
  profile    the cluster file that `tessera profile --device cuda` wrote
  rates      matmul_flops_per_s (best bf16 product), attention_flops_per_s (best bf16 attention, forward
             and backward), copy_bytes_per_s (best pass over large arrays,
             bytes read and written), launch_overhead_s
  models     a list: name, layers, batch, sequence, precision, num_steps, flops_per_token (causal,
             no recomputation), tessera and torch, each of them null or: tokens_per_s, step_time_s
             (median), flops_per_s, mfu (of the data sheet's peak, null where it is not known),
             matmul_share (of rates.matmul_flops_per_s), first_loss, last_loss, memory_bytes (at its
             peak); tessera alone predicted_memory_bytes, predicted_step_time_s; torch alone attention,
             compile_s; ratio: tokens_per_s of tessera over that of torch
"""

import json
import os

SCHEMA = 1


def new_result():
    return {"schema": SCHEMA, "card": None, "versions": {}, "parts": {}, "tests": None, "golden": [],
            "sanitizer": {}, "profile": None, "rates": None, "models": []}


def write_result(result, path):
    """Replaces the file at once: what is there is whole, whenever the run is cut short."""
    scratch = f"{path}.new"
    with open(scratch, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    os.replace(scratch, path)


def _number(value, scale, digits=1):
    return "-" if value is None else f"{value * scale:,.{digits}f}"


def _percent(value):
    return "-" if value is None else f"{100 * value:.1f} %"


def _model_rows(model):
    title = f"{model['name']}, {model['batch']} x {model['sequence']}, {model['precision']}"
    for program in ("tessera", "torch"):
        run = model.get(program)
        if run is None:
            continue
        memory = _number(run.get("memory_bytes"), 2**-30)
        if run.get("predicted_memory_bytes") is not None:
            memory += f" ({_number(run['predicted_memory_bytes'], 2**-30)})"
        ratio = model.get("ratio")
        yield (title, program, _number(run["tokens_per_s"], 1, 0),
               _number(run["step_time_s"], 1e3), _number(run.get("flops_per_s"), 1e-12),
               _percent(run.get("mfu")), _percent(run.get("matmul_share")), memory,
               f"{run['first_loss']:.3f} > {run['last_loss']:.3f}",
               f"{ratio:.2f} x" if ratio is not None and program == "tessera" else "")
        title = ""


def _aligned(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) if i < 2 else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows]


def table(result):
    """The lines to print."""
    lines = []
    card, rates = result["card"], result["rates"]
    if card is not None:
        lines.append(f"{card['name']}, sm_{card['architecture']}, {card['num_multiprocessors']} SMs, "
                     f"{card['memory_bytes'] * 2**-30:.1f} GiB")
    if rates is not None:
        lines.append(f"bf16 products {_number(rates['matmul_flops_per_s'], 1e-12)} TFLOP/s, attention "
                     f"{_number(rates['attention_flops_per_s'], 1e-12)} TFLOP/s, large passes "
                     f"{_number(rates['copy_bytes_per_s'], 1e-12, 2)} TB/s, smallest operation "
                     f"{_number(rates['launch_overhead_s'], 1e6)} us")
    for name, part in result["parts"].items():
        note = f": {part['note']}" if part.get("note") else ""
        lines.append(f"  {name:10s} {part['status']:12s} {part['seconds']:6.1f} s{note}")
    wrong = [row for row in result["golden"] if not row["passed"]]
    if result["golden"]:
        lines.append(f"golden: {len(result['golden']) - len(wrong)} of {len(result['golden'])} within "
                     "tolerance")
    for row in wrong:
        off = ("did not finish" if row["loss_error"] is None else
               f"loss off by {row['loss_error']:.1e}, gradient norm by {row['grad_norm_error']:.1e}")
        lines.append(f"  {row['case']} {row['precision']} {row['layout']} {row['comm']}: {off}")
    rows = [row for model in result["models"] for row in _model_rows(model)]
    if rows:
        header = ("model", "program", "tokens/s", "ms/step", "TFLOP/s", "MFU", "of products",
                  "GiB (predicted)", "loss", "ratio")
        lines += _aligned([header, *rows])
    return lines
