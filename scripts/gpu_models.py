"""The models that a GPU is measured with: their plans, data, FLOPs, and PyTorch beside."""

import array
import json
import random
import statistics

# Steps before the timed ones: memory is touched, algorithms are chosen, PyTorch compiles.
WARMUP_STEPS = 5
MODELS = (
    {"name": "gpt2-124m", "batch": 32, "sequence": 1024, "num_steps": 30},
    {"name": "gpt2-1.5b", "batch": 8, "sequence": 1024, "num_steps": 15},
    # Llama 3 8B, cut to a few of its layers.
    {"name": "llama3-8b", "layers": 4, "batch": 2, "sequence": 8192, "num_steps": 15},
)
SMALLEST_MEMORY_BYTES = 60 * 2**30  # below, batches are cut to a quarter


def models_for(card_memory_bytes, quick):
    found = []
    for model in MODELS:
        model = dict(model)
        if card_memory_bytes < SMALLEST_MEMORY_BYTES:
            model["batch"] = max(1, model["batch"] // 4)
        if quick:
            model["num_steps"] = 8
        found.append(model)
    return found[:1] if quick else found


def write_model(model, presets, path):
    """The preset, with fewer layers where the model says so. Returns it as a dictionary."""
    spec = json.loads((presets / f"{model['name']}.json").read_text())
    if "layers" in model:
        spec["num_layers"] = model["layers"]
        spec["name"] = f"{spec['name']}-{model['layers']}-layers"
    path.write_text(json.dumps(spec))
    return spec


def flops_per_token(spec, sequence):
    """Of forward and backward, three times the products of the forward pass; a query meets half of
    the keys on average; the lookup of embeddings is free, the head is not."""
    query = spec["num_attention_heads"] * spec["head_dim"]
    key = spec["num_key_value_heads"] * spec["head_dim"]
    hidden, ffn = spec["hidden_size"], spec["ffn_hidden_size"]
    num_ffn_products = 3 if spec["activation"] == "swiglu" else 2
    layer = hidden * (2 * query + 2 * key) + num_ffn_products * hidden * ffn
    products = spec["num_layers"] * layer + hidden * spec["vocab_size"]
    return 6 * products + 6 * spec["num_layers"] * sequence * query


def write_tokens(path, num_tokens, vocab_size, seed=1):
    """Random token numbers as 32-bit integers. A model soon learns that they are alike, so its loss
    falls towards log(vocab_size)."""
    generator = random.Random(seed)
    tokens = array.array("i", (generator.randrange(vocab_size) for _ in range(num_tokens)))
    path.write_bytes(tokens.tobytes())


def figures(step_times_s, losses, tokens, per_token, memory_bytes, rates, peak_flops_per_s):
    """What the result says of one program."""
    median = statistics.median(step_times_s)
    flops_per_s = tokens * per_token / median
    peak_rate = rates["matmul_flops_per_s"] if rates else None
    return {"tokens_per_s": tokens / median, "step_time_s": median, "flops_per_s": flops_per_s,
            "mfu": flops_per_s / peak_flops_per_s if peak_flops_per_s else None,
            "matmul_share": flops_per_s / peak_rate if peak_rate else None,
            "first_loss": losses[0], "last_loss": losses[-1], "memory_bytes": memory_bytes}


def data_sheet_peak(card_name, clusters):
    """Dense bf16 FLOP/s of a preset whose device's name begins a word of the card's name, or None."""
    words = card_name.replace("-", " ").split()
    for path in sorted(clusters.glob("dgx-*.json")):
        device = json.loads(path.read_text())["device"]
        if device["name"].split("-")[0] in words:
            return device["peak_flops_per_s"]["bf16"]["value"]
    return None


def run_tessera(model, spec_path, spec, run, programs, cluster, scratch, rates, peak):
    """Plans and trains. Returns the figures, or None where a command failed."""
    name = spec["name"]
    plan, metrics, report = (scratch / f"{name}.{end}" for end in ("plan.json", "jsonl", "report.json"))
    tokens = scratch / f"{name}.i32"
    num_steps = WARMUP_STEPS + model["num_steps"]
    write_tokens(tokens, num_steps * model["batch"] * model["sequence"] + 1, spec["vocab_size"])
    metrics.unlink(missing_ok=True)
    if run([programs / "tessera", "estimate", "--model", spec_path, "--cluster", cluster,
            "--target", "tessera", "--devices", "1", "--precision", "bf16", "--attention", "flash",
            "--recompute", "none", "--micro-batch-size", str(model["batch"]),
            "--global-batch-size", str(model["batch"]), "--seq-length", str(model["sequence"]),
            "--out", plan], f"{name}.plan.log"):
        return None
    if run([programs / "tessera-engine-cuda", "train", "--device", "cuda", "--plan", plan,
            "--data", tokens, "--data-format", "raw-i32", "--data-order", "sequential",
            "--steps", str(num_steps), "--metrics", metrics, "--format", "json", "--quiet"],
           f"{name}.train.log", output=report):
        return None
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    closing = json.loads(report.read_text())
    found = figures([row["step_time_s"] for row in rows[WARMUP_STEPS:]],
                    [row["loss"] for row in rows], model["batch"] * model["sequence"],
                    flops_per_token(spec, model["sequence"]),
                    sum(closing["ranks"][0]["memory"].values()), rates, peak)
    predicted = closing["predicted"]
    if predicted:
        stage = predicted["memory"]["stages"][0]
        # What is no tensor of ours, the CUDA context for one, is in the prediction alone.
        found["predicted_memory_bytes"] = (sum(stage[key] for key in closing["ranks"][0]["memory"])
                                           - stage.get("context_bytes", 0))
        found["predicted_step_time_s"] = predicted["step_time_s"]
    return found


def run_torch(model, spec_path, spec, run, peer, scratch, rates, peak):
    """The same model by PyTorch. Returns the figures, or None where it failed."""
    name = spec["name"]
    report = scratch / f"{name}.torch.json"
    if run(["python3", peer, "--model", spec_path, "--batch", str(model["batch"]),
            "--sequence", str(model["sequence"]), "--steps", str(model["num_steps"]),
            "--warmup", str(WARMUP_STEPS), "--tokens", scratch / f"{name}.i32"],
           f"{name}.torch.log", output=report):
        return None
    run_report = json.loads(report.read_text())
    found = figures(run_report["step_times_s"], run_report["losses"],
                    model["batch"] * model["sequence"], flops_per_token(spec, model["sequence"]),
                    run_report["peak_memory_bytes"], rates, peak)
    return found | {"attention": run_report["attention"], "compile_s": run_report["compile_s"]}
