#!/usr/bin/env python3
"""Writes the cluster files of GPUs that are another GPU but for a few numbers.

    scripts/derive_clusters.py           after a change of a file that others derive from
    scripts/derive_clusters.py --check   fails when a file is not what this would write

Numbers fitted to the runs of one GPU are assumed for those derived from it.
"""

import json
import pathlib
import sys

CLUSTERS = pathlib.Path(__file__).resolve().parent.parent / "configs" / "clusters"


def spec(value, source):
    return {"value": value, "tag": "spec", "source": source}


def assumed(value, source):
    return {"value": value, "tag": "assumed", "source": source}


H100_96GB = "pytorch/torchtitan, docs of its performance: H100 with 96 GB of HBM2e, 2.4 TB/s, 500 W"
BLOOM_CARD = "BLOOM's model card: NVLink with 4 connections between GPUs, 4 Omni-Path links of 100 Gb/s"
LESS_POWER = "as the H100 of 700 W, less for the power limit"
DENSE_B300 = "NVIDIA HGX B300 data sheet, dense"
DENSE_GB300 = "NVIDIA GB300 NVL72 data sheet, dense, over 72 GPUs"

# Name: the file derived from, what it is, the device's name, and the numbers that differ.
DERIVED = {
    "hgx-a800-80gb": (
        "dgx-a100-80gb", "A100 80 GB with 8 of its 12 NVLinks, as sold in China", "A800-SXM4-80GB", {
            "intra_node/bandwidth_bytes_per_s":
                spec(200e9, "NVIDIA A800 data sheet: NVLink 400 GB/s, both ways together"),
        }),
    "jean-zay-a100": (
        "dgx-a100-80gb", "the A100 nodes of the machine that trained BLOOM: 8 GPUs, 4 Omni-Path links",
        "A100-SXM4-80GB", {
            "nics_per_node": spec(4, BLOOM_CARD),
            "intra_node/efficiency": assumed(
                0.247, "4 of the 12 NVLinks join two GPUs, at the 0.74 that dgx-a100-80gb reaches; "
                + BLOOM_CARD),
            "inter_node/bandwidth_bytes_per_s": spec(12.5e9, BLOOM_CARD),
        }),
    "hgx-h800": (
        "dgx-h100", "H100 80 GB with 8 of its 18 NVLinks, as sold in China", "H800-SXM5-80GB", {
            "intra_node/bandwidth_bytes_per_s":
                spec(200e9, "NVIDIA H800 data sheet: NVLink 400 GB/s, both ways together"),
        }),
    "h100-96gb-500w": (
        "dgx-h100", "H100 96 GB with HBM2e at 500 W, 8 a node", "H100-96GB-HBM2e-500W", {
            "device/memory_bytes":
                assumed(102005473280, "96 GB in the source, less what the driver keeps"),
            "device/memory_bandwidth_bytes_per_s": spec(2.4e12, H100_96GB),
            "device/power_w": spec(500, H100_96GB),
            "device/kernels/sustained_flops_per_s/bf16": assumed(600e12, LESS_POWER),
            "device/kernels/sustained_flops_per_s/fp16": assumed(600e12, LESS_POWER),
            "device/kernels/sustained_flops_per_s/fp8": assumed(1050e12, LESS_POWER),
        }),
    "dgx-b300": (
        "dgx-b200", "NVIDIA DGX B300", "B300-288GB", {
            "device/memory_bytes":
                assumed(288000000000, "288 GB of HBM3e, less what the driver keeps"),
            "device/memory_bandwidth_bytes_per_s": spec(8e12, "NVIDIA HGX B300 data sheet"),
            "device/power_w": spec(1400, "NVIDIA Blackwell Ultra: up to 1,400 W a GPU"),
            "device/peak_flops_per_s/fp4": spec(13.5e15, DENSE_B300),
            "device/kernels/sustained_flops_per_s/fp4":
                assumed(8100e12, "the share of the peak that B200 sustains"),
            "inter_node/bandwidth_bytes_per_s": spec(100e9, "ConnectX-8, 800 Gb/s"),
        }),
    "gb300-nvl72": (
        "gb200-nvl72", "NVIDIA GB300 NVL72: one NVLink domain of 72 GPUs a rack", "GB300-288GB", {
            "device/memory_bytes":
                assumed(288000000000, "288 GB of HBM3e, less what the driver keeps"),
            "device/power_w": spec(1400, "NVIDIA Blackwell Ultra: up to 1,400 W a GPU"),
            "device/peak_flops_per_s/fp4": spec(15e15, DENSE_GB300),
            "device/kernels/sustained_flops_per_s/fp4":
                assumed(9000e12, "the share of the peak that GB200 sustains"),
            "inter_node/bandwidth_bytes_per_s": spec(100e9, "ConnectX-8, 800 Gb/s"),
        }),
}


def assume_fits(node, original):
    """Tags what was fitted to another GPU's runs as assumed for this one."""
    if not isinstance(node, dict):
        return
    if node.get("tag") in ("fitted", "measured"):
        node["tag"] = "assumed"
        node["source"] = f"as {original}: {node['source']}"
    for child in node.values():
        assume_fits(child, original)


def derive(name):
    original, source, device, changes = DERIVED[name]
    cluster = json.loads((CLUSTERS / f"{original}.json").read_text())
    cluster.update(name=name, source=source)
    assume_fits(cluster, original)
    cluster["device"]["name"] = device
    cluster["device"].pop("price_per_hour_usd", None)  # another device has another price
    for path, value in changes.items():
        *parents, key = path.split("/")
        section = cluster
        for parent in parents:
            section = section[parent]
        section[key] = value
    return render(cluster) + "\n"


def render(node, indent=0):
    """Sections over several lines, a number with its source on one."""
    if not isinstance(node, dict) or "value" in node:
        return json.dumps(node)
    blanks = " " * (indent + 2)
    lines = [f"{blanks}{json.dumps(key)}: {render(value, indent + 2)}"
             for key, value in node.items()]
    return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"


def main():
    check = "--check" in sys.argv[1:]
    stale = []
    for name in DERIVED:
        path = CLUSTERS / f"{name}.json"
        text = derive(name)
        if check and (not path.exists() or path.read_text() != text):
            stale.append(name)
        elif not check:
            path.write_text(text)
    for name in stale:
        print(f"configs/clusters/{name}.json: run scripts/derive_clusters.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
