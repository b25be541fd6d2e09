"""Golden trainings on a GPU: the engine's command over small models, each step held against an
independent float64 program."""

import concurrent.futures
import json
import math

# Relative, of the loss; the gradient norm is reported beside it. fp32 as on the CPU, bf16 as its 8
# bits of mantissa allow.
TOLERANCES = {"fp32": 2e-5, "bf16": 2e-2}
NORM_TOLERANCES = {"fp32": 2e-4, "bf16": 5e-2}
LAYOUTS = {"tp2": ("--tp", "2"), "pp2": ("--pp", "2"), "dp2": ("--dp", "2"),
           "tp2 pp2 dp2": ("--tp", "2", "--pp", "2", "--dp", "2")}


def cases(folder):
    return sorted(path.parent for path in folder.glob("*/expected.json"))


def jobs(folder, quick):
    """(case folder, precision, layout name, communicator) of every training; "nccl graph": with the
    passes of a step as one CUDA graph."""
    every = cases(folder)
    single = every[:2] if quick else every
    found = [(case, precision, "1 rank", "thread") for case in single
             for precision in ("fp32", "bf16")]
    found += [(case, precision, "1 rank", comm) for case in every[:1]
              for precision in ("fp32", "bf16") for comm in ("nccl", "nccl graph")]
    families = [every[0]] + [case for case in every if "llama-gqa" in case.name]
    layouts = list(LAYOUTS)[:3] if quick else list(LAYOUTS)
    found += [(case, precision, layout, "thread") for case in families
              for precision in ("fp32", "bf16") for layout in layouts]
    return found


def comm_options(comm):
    name, *graph = comm.split()
    return ["--comm", name, *(["--cuda-graph"] if graph else [])]


def num_ranks(layout):
    return math.prod(int(size) for size in LAYOUTS.get(layout, ())[1::2])


def largest_errors(rows, expected):
    """Largest relative distance of (loss, grad_norm) over the steps; infinity where steps are missing
    or a number is none."""
    if len(rows) != len(expected):
        return math.inf, math.inf
    errors = []
    for key in ("loss", "grad_norm"):
        distances = [abs(row[key] - step[key]) / abs(step[key]) for row, step in zip(rows, expected)]
        errors.append(max(distances) if all(map(math.isfinite, distances)) else math.inf)
    return tuple(errors)


def run_case(job, run, programs, cluster, scratch):
    """Plans and trains one job; `run(command, log)` returns the exit code. Returns a row of the
    result."""
    case, precision, layout, comm = job
    name = f"{case.name}-{precision}-{layout}-{comm}".replace(" ", "-")
    plan, metrics = scratch / f"{name}.plan.json", scratch / f"{name}.metrics.jsonl"
    metrics.unlink(missing_ok=True)
    ranks = num_ranks(layout)
    planned = run([programs / "tessera", "estimate", "--model", case, "--cluster", cluster,
                   "--target", "tessera", "--devices", str(ranks), *LAYOUTS.get(layout, ()),
                   "--micro-batch-size", "1", "--precision", precision, "--attention", "flash",
                   "--hyperparameters", case / "train.json", "--out", plan], f"{name}.plan.log")
    trained = planned or run([programs / "tessera-engine-cuda", "train", "--device", "cuda",
                              *comm_options(comm), "--plan", plan, "--hyperparameters",
                              case / "train.json", "--data", case / "tokens.bin",
                              "--data-format", "raw-u16", "--data-order", "sequential",
                              "--init", f"hf:{case}", "--metrics", metrics, "--quiet"],
                             f"{name}.train.log")
    rows = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
    expected = json.loads((case / "expected.json").read_text())["steps"]
    loss_error, norm_error = largest_errors(rows, expected)
    passed = (not trained and loss_error <= TOLERANCES[precision]
              and norm_error <= NORM_TOLERANCES[precision])
    return {"case": case.name, "precision": precision, "layout": layout, "comm": comm,
            "loss_error": loss_error if math.isfinite(loss_error) else None,
            "grad_norm_error": norm_error if math.isfinite(norm_error) else None,
            "tolerance": TOLERANCES[precision], "passed": passed}


def run_all(folder, quick, run, programs, cluster, scratch, num_at_once=4):
    """Rows of the result as they are done; what `run` raises comes out here."""
    with concurrent.futures.ThreadPoolExecutor(num_at_once) as pool:
        pending = [pool.submit(run_case, job, run, programs, cluster, scratch)
                   for job in jobs(folder, quick)]
        for done in concurrent.futures.as_completed(pending):
            yield done.result()
