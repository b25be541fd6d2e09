"""Builds and checks the CUDA parts on a machine with an NVIDIA GPU, then measures them.

Parts, in this order; each has a time limit of its own, and its result is kept whatever comes after:
  build      configures and builds into build/gpu_check, for this GPU alone
  tests      every kernel against float64 on the GPU (gpu_tests)
  golden     small trainings against a float64 program: fp32 and bf16; one rank; ranks that share the
             GPU through host memory (tensor, pipeline, data parallel); NCCL with one rank
  profile    `tessera profile --device cuda`: rates of products, passes and links, as a cluster file
  models     GPT-2 124M and 1.5B, a few layers of Llama 3 8B: speed, memory predicted and taken
  torch      the same models in PyTorch, compiled, where python3 has it
  sanitizer  compute-sanitizer (memcheck, racecheck) over small tests, where it is there and works
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import gpu_golden
import gpu_machine
import gpu_models
import gpu_report

EXIT_FAILED, EXIT_NO_GPU, EXIT_INTERRUPTED = 1, 77, 130
ROOT = pathlib.Path(__file__).resolve().parent.parent
# Seconds at most. Together more than the whole's --minutes: no part takes all of its own as a rule,
# and what the last ones find left is theirs.
LIMITS = {"build": 240, "tests": 60, "golden": 90, "profile": 45, "models": 120, "torch": 200,
          "sanitizer": 60}
TARGETS = ("tessera", "tessera-engine-cuda", "gpu_tests")
LEAST_SECONDS = 5  # a part with less is not begun


class OutOfTime(Exception):
    pass


class PartSkipped(Exception):
    pass


class PartFailed(Exception):
    pass


class Check:
    """One run: its time, its result, its files."""

    def __init__(self, arguments, clock=time.monotonic):
        self.arguments = arguments
        self.clock = clock
        self.deadline = clock() + 60 * arguments.minutes
        self.part_deadline = self.deadline
        self.result = gpu_report.new_result()
        self.out = pathlib.Path(arguments.out)
        self.build = ROOT / "build/gpu_check"
        self.scratch = self.build / "check"
        self.environment = dict(os.environ, OPENBLAS_NUM_THREADS="1")
        self.write_lock = threading.Lock()
        self.processes = set()  # running, each with a group of its own
        self.is_interrupted = False

    def end_when_interrupted(self):
        """Lets Ctrl-C and SIGTERM end what runs, in all threads, and then the check."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.interrupt)

    def interrupt(self, *_):
        self.is_interrupted = True
        for process in list(self.processes):
            end_group(process)
        raise KeyboardInterrupt

    def save(self):
        with self.write_lock:
            gpu_report.write_result(self.result, self.out)

    def run(self, command, log, output=None):
        """Runs a command until the part's deadline; what it says goes to a file. Returns its exit
        code. Raises OutOfTime when it had to be ended, and when the check was interrupted."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        log_path = self.scratch / log
        with contextlib.ExitStack() as files:
            log_file = files.enter_context(log_path.open("w"))
            out_file = files.enter_context(open(output, "w")) if output else log_file
            process = subprocess.Popen([str(part) for part in command], stdout=out_file,
                                       stderr=log_file, cwd=ROOT, env=self.environment,
                                       start_new_session=True)
            self.processes.add(process)
            try:
                if self.is_interrupted:
                    raise OutOfTime("interrupted")
                code = process.wait(max(0, self.part_deadline - self.clock()))
            except subprocess.TimeoutExpired:
                raise OutOfTime(f"{pathlib.Path(command[0]).name} was ended: {log_path}") from None
            finally:  # whatever ends the wait, nothing goes on that the command has started
                end_group(process)
                process.wait()
                self.processes.discard(process)
        if code:
            print(f"  exit code {code}: {' '.join(str(part) for part in command)}\n"
                  f"{tail(log_path)}", flush=True)
        return code

    def part(self, name, work):
        """Runs work() under the part's limit and records how it went. Returns whether it passed."""
        if name in self.arguments.skip:
            self.record(name, "skipped", 0, "as asked")
            return False
        start = self.clock()
        self.part_deadline = min(self.deadline, start + LIMITS[name])
        if self.part_deadline - start < LEAST_SECONDS:
            self.record(name, "out of time", 0, "not begun")
            return False
        print(f"{name} ...", flush=True)
        status, note = "passed", None
        try:
            note = work()
        except PartSkipped as reason:
            status, note = "skipped", str(reason)
        except OutOfTime as reason:
            status, note = "out of time", str(reason)
        except PartFailed as reason:
            status, note = "failed", str(reason)
        except Exception as error:  # a part that breaks must not take the others' results along
            status, note = "failed", f"{type(error).__name__}: {error}"
        self.record(name, status, self.clock() - start, note)
        return status == "passed"

    def record(self, name, status, seconds, note):
        self.result["parts"][name] = {"status": status, "seconds": round(seconds, 1), "note": note}
        self.save()


def end_group(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def tail(path, num_lines=25):
    lines = path.read_text(errors="replace").splitlines()[-num_lines:]
    return "\n".join(f"    {line}" for line in lines)


def unpacked(bundle, into):
    """The bundle's folder, unpacked where it is an archive; None without one."""
    if bundle is None:
        candidates = (ROOT / "build/gpu_bundle", ROOT / "build/gpu_bundle.tar.gz")
        bundle = next((path for path in candidates if path.exists()), None)
        if bundle is None:
            return None
    bundle = pathlib.Path(bundle).resolve()
    if bundle.is_dir():
        return bundle
    into.mkdir(parents=True, exist_ok=True)
    whole = into / "gpu_bundle"
    # Under its name only when it is whole: a folder of that name is taken for the bundle.
    with tempfile.TemporaryDirectory(dir=into, prefix="gpu_bundle.") as unfinished:
        shutil.unpack_archive(bundle, unfinished)
        shutil.rmtree(whole, ignore_errors=True)
        os.rename(pathlib.Path(unfinished) / "gpu_bundle", whole)
    return whole


def build(check, card, nvcc, toolkit, bundle):
    options = [f"-DCMAKE_CUDA_COMPILER={nvcc}", f"-DCMAKE_CUDA_ARCHITECTURES={card.architecture}-real",
               "-DCMAKE_BUILD_TYPE=Release", "-DTESSERA_CUDA=ON", *toolkit.cmake_options()]
    if bundle is not None:
        options.append(f"-DCMAKE_PREFIX_PATH={bundle}")
    if check.run(["cmake", "-S", ROOT, "-B", check.build, "-G", "Ninja", *options], "configure.log"):
        raise PartFailed("CMake failed")
    said = (check.scratch / "configure.log").read_text()
    attention = re.search(r"-- (Attention by .*)", said)
    check.result["versions"]["attention"] = attention[1] if attention else None
    if "Building for CUDA" not in said:
        reason = re.search(r"-- (Building for CPU only.*(?:\n {3}.*)*)", said)
        raise PartFailed(" ".join((reason[1] if reason else "no CUDA").split()))
    if check.run(["cmake", "--build", check.build, "--parallel", str(os.cpu_count()),
                  "--target", *TARGETS], "build.log"):
        raise PartFailed("the build failed")


def kernel_tests(check):
    report = check.scratch / "gpu_tests.json"
    report.unlink(missing_ok=True)
    code = check.run([check.build / "bin/gpu_tests", "--gtest_brief=1", f"--gtest_output=json:{report}"],
                     "gpu_tests.log")
    if not report.exists():
        raise PartFailed(f"gpu_tests ended with exit code {code} before its report")
    tests = [test for suite in json.loads(report.read_text())["testsuites"]
             for test in suite["testsuite"]]
    failures = [f"{test['classname']}.{test['name']}" for test in tests if test.get("failures")]
    skipped = sum(test.get("result") == "SKIPPED" for test in tests)
    check.result["tests"] = {"passed": len(tests) - len(failures) - skipped, "failed": len(failures),
                             "skipped": skipped, "failures": failures}
    if code or failures:
        raise PartFailed(f"{len(failures)} of {len(tests)} failed: {', '.join(failures[:3])}")
    return f"{len(tests) - skipped} passed, {skipped} skipped"


def golden(check, cluster):
    for row in gpu_golden.run_all(ROOT / "tests/golden", check.arguments.quick, check.run,
                                  check.build / "bin", cluster, check.scratch):
        check.result["golden"].append(row)
        check.save()
    wrong = sum(not row["passed"] for row in check.result["golden"])
    if wrong:
        raise PartFailed(f"{wrong} trainings are off")
    return f"{len(check.result['golden'])} trainings"


def profile(check):
    path = check.scratch / "card.json"
    if check.run([check.build / "bin/tessera-engine-cuda", "profile", "--device", "cuda",
                  "--out", path, "--quiet"], "profile.log"):
        raise PartFailed("tessera profile failed")
    cluster = json.loads(path.read_text())
    check.result["profile"] = cluster
    check.result["rates"] = rates_of(cluster)


def rates_of(cluster):
    """The numbers of a measured cluster file that the table shows."""
    number = lambda entry: entry["value"] if isinstance(entry, dict) else entry
    device = cluster["device"]
    bandwidth = number(device["memory_bandwidth_bytes_per_s"])
    table = number(device["memory_efficiency_by_bytes"])
    # The file's peak is the better of the two.
    peak = number(device["peak_flops_per_s"]["bf16"])
    best = lambda key: peak * max(share for _, share in number(device[key]))
    return {"matmul_flops_per_s": best("matmul_efficiency_by_flops"),
            "attention_flops_per_s": best("attention_efficiency_by_flops"),
            "copy_bytes_per_s": bandwidth * table[-1][1],
            "launch_overhead_s": number(device["launch_overhead_s"])}


def planning_cluster(check):
    """What plans are made for: the profile where there is one, else the nearest preset."""
    measured = check.scratch / "card.json"
    return measured if check.result["profile"] else "dgx-h200"


def models(check, card):
    peak = gpu_models.data_sheet_peak(card.name, ROOT / "configs/clusters")
    failed = []
    for model in gpu_models.models_for(card.memory_bytes, check.arguments.quick):
        path = check.scratch / f"{model['name']}.model.json"
        spec = gpu_models.write_model(model, ROOT / "configs/models", path)
        row = {"name": spec["name"], "layers": spec["num_layers"], "batch": model["batch"],
               "sequence": model["sequence"], "precision": "bf16", "num_steps": model["num_steps"],
               "flops_per_token": gpu_models.flops_per_token(spec, model["sequence"]),
               "tessera": None, "torch": None, "ratio": None}
        check.result["models"].append(row)
        row["tessera"] = gpu_models.run_tessera(model, path, spec, check.run, check.build / "bin",
                                                planning_cluster(check), check.scratch,
                                                check.result["rates"], peak)
        check.save()
        if row["tessera"] is None:
            failed.append(spec["name"])
    if failed:
        raise PartFailed(", ".join(failed))


def torch_peers(check, card):
    has_torch = subprocess.run(["python3", "-c", "import torch; print(torch.__version__)"],
                               capture_output=True, text=True, check=False)
    if has_torch.returncode:
        raise PartSkipped("python3 has no PyTorch")
    check.result["versions"]["torch"] = has_torch.stdout.strip()
    peak = gpu_models.data_sheet_peak(card.name, ROOT / "configs/clusters")
    failed = []
    for model, row in zip(gpu_models.models_for(card.memory_bytes, check.arguments.quick),
                          check.result["models"]):
        path = check.scratch / f"{model['name']}.model.json"
        spec = json.loads(path.read_text())
        row["torch"] = gpu_models.run_torch(model, path, spec, check.run,
                                            ROOT / "tests/benchmarks/torch_gpu_peer.py",
                                            check.scratch, check.result["rates"], peak)
        if row["torch"] and row["tessera"]:
            row["ratio"] = row["tessera"]["tokens_per_s"] / row["torch"]["tokens_per_s"]
        check.save()
        if row["torch"] is None:
            failed.append(spec["name"])
    if failed:
        raise PartFailed(", ".join(failed))


def sanitizer(check, nvcc):
    program = shutil.which("compute-sanitizer") or pathlib.Path(nvcc).parent / "compute-sanitizer"
    if not pathlib.Path(program).exists():
        raise PartSkipped("there is no compute-sanitizer")
    wrong = []
    for tool in ("memcheck", "racecheck"):
        log = f"sanitizer-{tool}.log"
        code = check.run([program, "--tool", tool, "--error-exitcode", "9",
                          check.build / "bin/gpu_tests", "--gtest_brief=1",
                          "--gtest_filter=*Norm*:*CrossEntropy*:*Routing*:*SwiGlu*:-*Large*"], log)
        said = (check.scratch / log).read_text(errors="replace")
        found = re.search(r"(?:ERROR SUMMARY|RACECHECK SUMMARY): (\d+)", said)
        works = found is not None and "Device not supported" not in said
        errors = int(found[1]) if works else None
        check.result["sanitizer"][tool] = {"errors": errors,
                                           "note": None if works else "does not work here"}
        check.save()
        if works and (errors or code):
            wrong.append(f"{tool}: {errors} errors, exit code {code}")
    if wrong:
        raise PartFailed("; ".join(wrong))
    if all(tool["errors"] is None for tool in check.result["sanitizer"].values()):
        raise PartSkipped("compute-sanitizer does not work here")
    return None


def run_parts(check, card, nvcc):
    bundle = unpacked(check.arguments.bundle, ROOT / "build")
    toolkit = gpu_machine.Toolkit(nvcc, bundle)
    folders = [*toolkit.library_folders(), card.driver_folder, os.environ.get("LD_LIBRARY_PATH", "")]
    check.environment["LD_LIBRARY_PATH"] = ":".join(folder for folder in folders if folder)
    built = check.part("build", lambda: build(check, card, nvcc, toolkit, bundle))
    if not built and "build" not in check.arguments.skip:
        return  # what an earlier build left would be measured
    check.part("tests", lambda: kernel_tests(check))
    check.part("golden", lambda: golden(check, "dgx-h200"))
    check.part("profile", lambda: profile(check))
    check.part("models", lambda: models(check, card))
    check.part("torch", lambda: torch_peers(check, card))
    check.part("sanitizer", lambda: sanitizer(check, nvcc))


def parse_arguments(words):
    parser = argparse.ArgumentParser(prog="scripts/gpu_check.sh", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    default_out = os.path.join(os.environ.get("OUT") or ROOT / "build", "gpu_check.json")
    parser.add_argument("--bundle", help="what scripts/gpu_bundle.sh made (default: build/gpu_bundle or "
                                         "build/gpu_bundle.tar.gz, where there is one)")
    parser.add_argument("--out", default=default_out, help="JSON of all numbers (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="fewer trainings, the smallest model alone")
    parser.add_argument("--skip", action="append", default=[], choices=LIMITS, metavar="PART",
                        help="leave a part out; may be repeated")
    parser.add_argument("--minutes", type=float, default=8, help="for all of it (default: %(default)s)")
    arguments = parser.parse_args(words)
    if arguments.minutes <= 0:
        parser.error("--minutes: more than 0")
    if arguments.bundle and not os.path.exists(arguments.bundle):
        parser.error(f"--bundle: {arguments.bundle} does not exist")
    return arguments


def main(words):
    arguments = parse_arguments(words)
    card = gpu_machine.query_card()
    if card is None:
        return EXIT_NO_GPU
    nvcc = gpu_machine.find_nvcc()
    if nvcc is None:
        print("gpu_check: no nvcc on the PATH or under /usr/local/cuda*", file=sys.stderr)
        return EXIT_FAILED
    pathlib.Path(arguments.out).parent.mkdir(parents=True, exist_ok=True)
    check = Check(arguments)
    check.end_when_interrupted()
    check.result["card"] = {key: value for key, value in vars(card).items() if key != "driver_folder"}
    check.result["versions"]["nvcc"] = subprocess.run(
        [nvcc, "--version"], capture_output=True, text=True).stdout.strip().splitlines()[-1]
    run_parts(check, card, nvcc)
    check.save()
    print()
    print("\n".join(gpu_report.table(check.result)))
    print(f"all numbers: {arguments.out}")
    statuses = [part["status"] for part in check.result["parts"].values()]
    return EXIT_FAILED if any(status in ("failed", "out of time") for status in statuses) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
