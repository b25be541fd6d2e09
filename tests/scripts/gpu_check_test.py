"""The parts of scripts/gpu_check.sh that need no GPU: time limits, results kept, the table, the
comparison of trainings, what is found of CUDA."""

import contextlib
import io
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import gpu_check
import gpu_golden
import gpu_machine
import gpu_models
import gpu_report


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def make_file(self, path, text=""):
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def make_check(self, *words, clock=None):
        arguments = gpu_check.parse_arguments(["--out", str(self.folder / "result.json"), *words])
        check = gpu_check.Check(arguments, **({"clock": clock} if clock else {}))
        check.scratch = self.folder / "scratch"
        return check

    def wait_for(self, condition, patience_s=60):
        deadline = time.monotonic() + patience_s
        while not condition():
            self.assertLess(time.monotonic(), deadline, "waited in vain")
            time.sleep(0.01)

    @staticmethod
    def has_ended(pid):
        try:
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        return state == "Z"  # nobody has asked for its exit code yet

    def saved(self):
        return json.loads((self.folder / "result.json").read_text())


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@contextlib.contextmanager
def silence():
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


class PartsTest(FolderTest):
    def run_part(self, check, name, work):
        with silence():
            return check.part(name, work)

    def test_a_result_is_kept_when_a_later_part_breaks(self):
        check = self.make_check()
        self.assertTrue(self.run_part(check, "tests", lambda: "all well"))
        self.assertFalse(self.run_part(check, "golden", lambda: 1 / 0))
        parts = self.saved()["parts"]
        self.assertEqual((parts["tests"]["status"], parts["tests"]["note"]), ("passed", "all well"))
        self.assertEqual(parts["golden"]["status"], "failed")
        self.assertIn("ZeroDivisionError", parts["golden"]["note"])

    def test_a_part_is_not_begun_when_the_time_is_spent(self):
        clock = Clock()
        check = self.make_check("--minutes", "1", clock=clock)
        clock.now += 57
        self.assertFalse(self.run_part(check, "models", lambda: self.fail("was begun")))
        self.assertEqual(self.saved()["parts"]["models"]["status"], "out of time")

    def test_a_part_gets_its_own_limit_or_what_is_left(self):
        clock = Clock()
        check = self.make_check("--minutes", "2", clock=clock)
        limits = []
        self.run_part(check, "tests", lambda: limits.append(check.part_deadline - clock.now))
        clock.now += 80
        self.run_part(check, "golden", lambda: limits.append(check.part_deadline - clock.now))
        self.assertEqual(limits, [gpu_check.LIMITS["tests"], 40])

    def test_a_part_is_skipped_as_asked_or_as_it_says(self):
        check = self.make_check("--skip", "torch")
        self.run_part(check, "torch", lambda: self.fail("was begun"))

        def skip():
            raise gpu_check.PartSkipped("nothing here")

        self.run_part(check, "sanitizer", skip)
        parts = self.saved()["parts"]
        self.assertEqual(parts["torch"]["status"], "skipped")
        self.assertEqual((parts["sanitizer"]["status"], parts["sanitizer"]["note"]),
                         ("skipped", "nothing here"))

    def test_a_command_that_takes_too_long_is_ended(self):
        check = self.make_check()
        check.part_deadline = check.clock() + 0.2
        with self.assertRaises(gpu_check.OutOfTime):
            check.run(["sleep", "60"], "sleep.log")

    def test_an_interrupted_run_leaves_no_command_behind(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            pid_file = self.folder / f"pid{number}"
            code = ("import concurrent.futures, pathlib, sys\n"
                    f"sys.path.insert(0, {str(ROOT / 'scripts')!r})\n"
                    "import gpu_check\n"
                    f"check = gpu_check.Check(gpu_check.parse_arguments(['--out', {str(self.folder)!r}]))\n"
                    f"check.scratch = pathlib.Path({str(self.folder)!r})\n"
                    "check.end_when_interrupted()\n"
                    "def work(number):\n"
                    f"    check.run(['sh', '-c', 'sleep 60 & echo $! > {pid_file}.new; '\n"
                    f"               'mv {pid_file}.new {pid_file}; wait'], f'sh{{number}}.log')\n"
                    "with concurrent.futures.ThreadPoolExecutor(1) as pool:\n"
                    "    list(pool.map(work, range(3)))\n")
            with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as run:
                self.wait_for(pid_file.exists)
                sleeper = int(pid_file.read_text())
                run.send_signal(number)
                self.assertNotEqual(run.wait(60), 0)
            self.wait_for(lambda: self.has_ended(sleeper))

    def test_a_command_tells_its_exit_code_and_its_output(self):
        check = self.make_check()
        output = self.folder / "said"
        with silence():
            code = check.run(["sh", "-c", "echo out; echo err >&2; exit 3"], "sh.log", output=output)
        self.assertEqual(code, 3)
        self.assertEqual(output.read_text(), "out\n")
        self.assertEqual((check.scratch / "sh.log").read_text(), "err\n")


class BundleTest(FolderTest):
    def make_bundle(self, text):
        self.make_file("packed/gpu_bundle/lib/some.a", text)
        return shutil.make_archive(str(self.folder / "bundle"), "gztar", self.folder / "packed")

    def test_a_bundle_is_there_whole_or_not_at_all(self):
        archive = pathlib.Path(self.make_bundle("0" * 100_000))
        into = self.folder / "build"
        damaged = self.folder / "damaged.tar.gz"
        damaged.write_bytes(archive.read_bytes()[:-20])
        with self.assertRaises(Exception):
            gpu_check.unpacked(damaged, into)
        self.assertEqual(list(into.iterdir()), [])
        self.assertEqual(gpu_check.unpacked(archive, into), into / "gpu_bundle")
        self.assertEqual((into / "gpu_bundle/lib/some.a").read_text(), "0" * 100_000)

    def test_an_archive_replaces_what_an_older_one_left(self):
        into = self.folder / "build"
        gpu_check.unpacked(self.make_bundle("old"), into)
        gpu_check.unpacked(self.make_bundle("new"), into)
        self.assertEqual((into / "gpu_bundle/lib/some.a").read_text(), "new")


class CommandLineTest(FolderTest):
    def run_script(self, *words):
        return subprocess.run([ROOT / "scripts/gpu_check.sh", *words], capture_output=True, text=True,
                              check=False, cwd=self.folder, env=dict(os.environ, OUT=str(self.folder)))

    def test_paths_are_relative_to_the_folder_of_the_caller(self):
        self.make_file("here.tar.gz")
        self.assertNotEqual(self.run_script("--bundle", "here.tar.gz", "--minutes", "0.01").returncode, 2)
        self.assertEqual(self.run_script("--bundle", "build/here.tar.gz").returncode, 2)

    def test_help_tells_the_parts(self):
        done = self.run_script("--help")
        self.assertEqual(done.returncode, 0)
        for part in gpu_check.LIMITS:
            self.assertIn(part, done.stdout)

    def test_unknown_parts_are_refused(self):
        self.assertEqual(self.run_script("--skip", "lunch").returncode, 2)
        self.assertEqual(self.run_script("--minutes", "0").returncode, 2)
        self.assertEqual(self.run_script("--bundle", "nowhere.tar.gz").returncode, 2)

    def test_without_a_gpu_it_says_so_in_one_line_with_code_77(self):
        with silence():
            has_gpu = gpu_machine.query_card() is not None
        if has_gpu:
            self.skipTest("there is a GPU here")
        done = self.run_script()
        self.assertEqual(done.returncode, 77)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertFalse((self.folder / "gpu_check.json").exists())


class GoldenTest(FolderTest):
    EXPECTED = [{"loss": 4.0, "grad_norm": 1.0}, {"loss": 2.0, "grad_norm": 0.5}]

    def test_the_largest_relative_error_counts(self):
        rows = [{"loss": 4.0, "grad_norm": 1.01}, {"loss": 2.002, "grad_norm": 0.5}]
        loss, norm = gpu_golden.largest_errors(rows, self.EXPECTED)
        self.assertAlmostEqual(loss, 1e-3)
        self.assertAlmostEqual(norm, 1e-2)

    def test_missing_steps_and_nans_are_infinitely_wrong(self):
        self.assertEqual(gpu_golden.largest_errors(self.EXPECTED[:1], self.EXPECTED),
                         (math.inf, math.inf))
        rows = [{"loss": math.nan, "grad_norm": 1.0}, self.EXPECTED[1]]
        self.assertEqual(gpu_golden.largest_errors(rows, self.EXPECTED)[0], math.inf)

    def test_jobs_cover_precisions_layouts_and_nccl(self):
        jobs = gpu_golden.jobs(ROOT / "tests/golden", quick=False)
        self.assertEqual(len(jobs), len(set(jobs)))
        for precision in ("fp32", "bf16"):
            layouts = {(layout, comm) for _, other, layout, comm in jobs if other == precision}
            self.assertEqual(layouts, {("1 rank", "thread"), ("1 rank", "nccl"),
                                       ("1 rank", "nccl graph"), ("tp2", "thread"),
                                       ("pp2", "thread"), ("dp2", "thread"),
                                       ("tp2 pp2 dp2", "thread")})

    def test_ranks_are_the_product_of_the_axes(self):
        self.assertEqual([gpu_golden.num_ranks(name) for name in ("1 rank", "tp2", "tp2 pp2 dp2")],
                         [1, 2, 8])

    def run_case_with(self, rows, exit_code=0):
        case = ROOT / "tests/golden/gpt2-tiny"

        def run(command, _log):
            if "train" in command:
                path = command[command.index("--metrics") + 1]
                path.write_text("".join(json.dumps(row) + "\n" for row in rows))
                return exit_code
            return 0

        return gpu_golden.run_case((case, "bf16", "tp2", "thread"), run, pathlib.Path("bin"), "c",
                                   self.folder)

    def test_a_training_passes_within_tolerance_and_a_clean_exit(self):
        steps = json.loads((ROOT / "tests/golden/gpt2-tiny/expected.json").read_text())["steps"]
        near = [dict(step, loss=step["loss"] * 1.001) for step in steps]
        self.assertTrue(self.run_case_with(near)["passed"])
        self.assertFalse(self.run_case_with(near, exit_code=1)["passed"])
        self.assertFalse(self.run_case_with(near[:-1])["passed"])
        far = [dict(step, loss=step["loss"] * 1.1) for step in steps]
        self.assertFalse(self.run_case_with(far)["passed"])


class ModelsTest(FolderTest):
    def preset(self, name):
        return json.loads((ROOT / f"configs/models/{name}.json").read_text())

    def test_flops_of_gpt2_are_those_counted_by_hand(self):
        # 12 layers of 12 h^2 weights, h = 768, a head of 50257 h; 6 FLOPs a weight and token.
        by_hand = 6 * (12 * 12 * 768**2 + 50257 * 768) + 6 * 12 * 1024 * 768
        self.assertEqual(gpu_models.flops_per_token(self.preset("gpt2-124m"), 1024), by_hand)

    def test_a_model_can_lose_layers_and_nothing_else(self):
        path = self.folder / "model.json"
        spec = gpu_models.write_model({"name": "llama3-8b", "layers": 4}, ROOT / "configs/models", path)
        self.assertEqual(json.loads(path.read_text()), spec)
        changed = {key for key, value in self.preset("llama3-8b").items() if spec[key] != value}
        self.assertEqual(changed, {"name", "num_layers"})

    def test_all_presets_exist_and_small_cards_get_small_batches(self):
        for quick in (False, True):
            for model in gpu_models.models_for(140 * 2**30, quick):
                self.preset(model["name"])
        self.assertEqual([model["batch"] for model in gpu_models.models_for(24 * 2**30, False)],
                         [8, 2, 1])

    def test_tokens_are_of_the_vocabulary(self):
        path = self.folder / "tokens"
        gpu_models.write_tokens(path, 1000, 50)
        values = memoryview(path.read_bytes()).cast("i").tolist()
        self.assertEqual(len(values), 1000)
        self.assertTrue(all(0 <= value < 50 for value in values))

    def test_figures_follow_from_the_median_step(self):
        found = gpu_models.figures([0.1, 0.2, 9.0], [10.0, 9.0], 1000, 4e9, 123,
                                   {"matmul_flops_per_s": 4e13}, 8e13)
        self.assertAlmostEqual(found["tokens_per_s"], 5000)
        self.assertAlmostEqual(found["matmul_share"], 0.5)
        self.assertAlmostEqual(found["mfu"], 0.25)
        self.assertIsNone(gpu_models.figures([1], [1], 1, 1, 1, None, None)["matmul_share"])

    def test_the_data_sheet_is_found_by_the_name_of_the_card(self):
        clusters = ROOT / "configs/clusters"
        self.assertAlmostEqual(gpu_models.data_sheet_peak("NVIDIA H200", clusters), 989.4e12)
        self.assertAlmostEqual(gpu_models.data_sheet_peak("NVIDIA A100-SXM4-80GB", clusters), 312e12)
        self.assertIsNone(gpu_models.data_sheet_peak("NVIDIA GeForce RTX 4090", clusters))


class ProfileTest(unittest.TestCase):
    def test_rates_come_from_a_measured_cluster_file(self):
        measured = lambda value: {"value": value, "tag": "measured", "source": "here"}
        device = {"peak_flops_per_s": {"bf16": measured(8e14), "fp32": measured(5e13)},
                  "memory_bandwidth_bytes_per_s": measured(6e12),
                  "memory_efficiency_by_bytes": measured([[1e4, 0.5], [1e9, 0.75]]),
                  "matmul_efficiency_by_flops": measured([[1e9, 0.25], [1e12, 0.875], [1e13, 0.75]]),
                  "attention_efficiency_by_flops": measured([[1e9, 0.5], [1e12, 1.0]]),
                  "launch_overhead_s": measured(2e-6)}
        self.assertEqual(gpu_check.rates_of({"device": device}),
                         {"matmul_flops_per_s": 7e14, "attention_flops_per_s": 8e14, "copy_bytes_per_s": 4.5e12,
                          "launch_overhead_s": 2e-6})


class ToolkitTest(FolderTest):
    def test_the_toolkit_comes_before_packages_and_the_bundle(self):
        nvcc = self.make_file("cuda/bin/nvcc")
        for path in ("cuda/include/nccl.h", "cuda/lib64/libnccl.so", "nvidia/cudnn/include/cudnn_version.h",
                     "nvidia/nccl/include/nccl.h", "nvidia/nccl/lib/libnccl.so.2",
                     "nvidia/cublas/lib/libcublasLt.so.13", "bundle/cuda_include/cublasLt.h",
                     "bundle/cuda_include/cudnn_frontend.h"):
            self.make_file(path)
        packages = [str(path) for path in sorted((self.folder / "nvidia").iterdir())]
        toolkit = gpu_machine.Toolkit(nvcc, self.folder / "bundle", packages)
        self.assertEqual(
            toolkit.cmake_options(),
            [f"-DTESSERA_NCCL_LIBRARY={self.folder}/cuda/lib64/libnccl.so",
             f"-DTESSERA_NCCL_INCLUDE_DIR={self.folder}/cuda/include",
             f"-DTESSERA_CUDNN_INCLUDE_DIR={self.folder}/nvidia/cudnn/include",
             f"-DTESSERA_CUDNN_FRONTEND_INCLUDE_DIR={self.folder}/bundle/cuda_include",
             f"-DCUDA_cublasLt_LIBRARY={self.folder}/nvidia/cublas/lib/libcublasLt.so.13",
             f"-DCMAKE_CXX_FLAGS=-isystem {self.folder}/bundle/cuda_include"])
        self.assertEqual(toolkit.library_folders(),
                         [f"{self.folder}/nvidia/cublas/lib", f"{self.folder}/cuda/lib64"])


class TableTest(unittest.TestCase):
    def result(self):
        run = {"tokens_per_s": 500000.4, "step_time_s": 0.0655, "flops_per_s": 4.1e14, "mfu": 0.41,
               "matmul_share": 0.52, "first_loss": 11.0, "last_loss": 10.8, "memory_bytes": 2**34}
        result = gpu_report.new_result()
        result["card"] = {"name": "NVIDIA H200", "architecture": "90", "num_multiprocessors": 132,
                          "memory_bytes": 150 * 10**9, "count": 1}
        result["rates"] = {"matmul_flops_per_s": 7.9e14, "attention_flops_per_s": 6.5e14,
                           "copy_bytes_per_s": 4.3e12,
                           "launch_overhead_s": 2e-6}
        result["parts"]["build"] = {"status": "passed", "seconds": 101.5, "note": None}
        result["golden"] = [{"case": "gpt2-tiny", "precision": "bf16", "layout": "tp2", "comm": "thread",
                             "loss_error": None, "grad_norm_error": None, "tolerance": 2e-2,
                             "passed": False}]
        result["models"] = [{"name": "gpt2-124m", "batch": 32, "sequence": 1024, "precision": "bf16",
                             "tessera": dict(run, predicted_memory_bytes=2**34),
                             "torch": dict(run, tokens_per_s=400000.0, mfu=None), "ratio": 1.25}]
        return result

    def test_the_table_shows_card_parts_failures_and_both_programs(self):
        text = "\n".join(gpu_report.table(self.result()))
        for words in ("NVIDIA H200, sm_90, 132 SMs", "790.0 TFLOP/s", "650.0 TFLOP/s", "4.30 TB/s", "101.5 s",
                      "golden: 0 of 1", "gpt2-tiny bf16 tp2 thread: did not finish", "500,000",
                      "400,000", "52.0 %", "16.0 (16.0)", "1.25 x", "11.000 > 10.800"):
            self.assertIn(words, text)

    def test_an_empty_result_makes_an_empty_table(self):
        self.assertEqual(gpu_report.table(gpu_report.new_result()), [])

    def test_columns_line_up(self):
        lines = gpu_report.table(self.result())
        header = next(line for line in lines if line.startswith("model"))
        ours = next(line for line in lines if "tessera" in line)
        self.assertEqual(header.index("tokens/s") + len("tokens/s"), ours.index("500,000") + len("500,000"))


if __name__ == "__main__":
    unittest.main()
