"""The checks of the source tree must find what they are there for: each gets a small bad tree."""

import json
import pathlib
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import check_formatting
import check_headers
import check_kernel_resources
import check_layering
import check_sizes
import check_tests_built
import check_words
import compile_commands


class TreeTest(unittest.TestCase):
    """A test with an empty source tree in a temporary folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()

    def write(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def write_compile_commands(self, *paths):
        compiler = shutil.which("g++") or shutil.which("c++")
        self.write("build/compile_commands.json", json.dumps(
            [{"directory": str(self.root), "file": path,
              "command": f"{compiler} -I{self.root} -std=c++20 -o x.o -c {path}"} for path in paths]))


    def write_unity_compile_commands(self, *paths):
        """Of a build that compiles all of `paths` as one file."""
        unity = "build/CMakeFiles/x.dir/Unity/unity_0_cxx.cxx"
        self.write(unity, "".join(f'/* NOLINT */\n#include "{self.root / path}"\n' for path in paths))
        self.write_compile_commands(str(self.root / unity))


class CompileCommandsTest(TreeTest):
    def test_each_file_of_a_unity_build_gets_a_command_of_its_own(self):
        self.write_unity_compile_commands("engine/a.cc", "engine/b.cc")
        a, b = (str(self.root / f"engine/{name}.cc") for name in "ab")
        entries = compile_commands.load(self.root / "build")
        self.assertEqual([(entry["file"], entry["leads"]) for entry in entries],
                         [(a, True), (b, False)])
        self.assertTrue(entries[1]["command"].endswith(f"-c {b}"), entries[1])

    def test_other_files_stay_as_they_are(self):
        self.write_compile_commands("engine/a.cc")
        entries = compile_commands.load(self.root / "build")
        self.assertEqual([(entry["file"], entry["leads"]) for entry in entries],
                         [("engine/a.cc", True)])


class LayeringTest(TreeTest):
    def problems_of(self, path, text):
        self.write(path, text)
        problems, _ = check_layering.find_problems(self.root)
        return problems

    def assert_one_problem(self, path, text, expected):
        problems = self.problems_of(path, text)
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(expected, problems[0])

    def test_a_well_layered_tree_passes(self):
        self.write("cost_model/base/math.h", "// Why.\n#pragma once\n\n#include <cstdint>\n")
        self.write("cost_model/spec/plan_json.cc", "#include <nlohmann/json.hpp>\n")
        self.write("planner/cli/plan.cc", '#include <CLI/CLI.hpp>\n#include "cost_model/base/math.h"\n')
        self.write("kernels/cpu/matmul.cc", '#include <cblas.h>\n#include <immintrin.h>\n')
        self.write("engine/comm/nccl_world.cc", "#include <nccl.h>\n#ifdef USE_NCCL\n#endif\n")
        self.assertEqual(check_layering.find_problems(self.root), ([], 5))

    def test_the_engine_may_not_include_the_planner(self):
        self.write("planner/search.h", "#pragma once\n")
        self.assert_one_problem("engine/train/trainer.cc", '#include "planner/search.h"\n',
                                "engine/train/trainer.cc:1: ")

    def test_the_engine_may_not_include_the_priced_part_of_the_cost_model(self):
        self.write("cost_model/op_cost.h", "#pragma once\n")
        self.assert_one_problem("engine/train/trainer.cc", '#include "cost_model/op_cost.h"\n',
                                "engine may not include cost_model")

    def test_kernels_may_not_include_the_spec(self):
        self.write("cost_model/spec/model_spec.h", "#pragma once\n")
        self.assert_one_problem("kernels/cpu/norm.cc", '#include "cost_model/spec/model_spec.h"\n',
                                "kernels/cpu may not include cost_model/spec")

    def test_cuda_kernels_stay_behind_the_files_made_for_them(self):
        self.write("kernels/cuda/stream.h", "#pragma once\n")
        include = '#include "kernels/cuda/stream.h"\n#include <cuda_runtime.h>\n'
        self.assertEqual(self.problems_of("engine/comm/nccl_world.cc", include), [])
        self.assertEqual(self.problems_of("engine/device/cuda_device.cc", include), [])
        self.assertEqual(len(self.problems_of("engine/device/cpu_device.cc", include)), 2)

    def test_json_stays_in_json_files(self):
        self.assert_one_problem("cost_model/spec/plan.cc", "#include <nlohmann/json.hpp>\n",
                                "nlohmann/json may be used in")

    def test_the_command_line_library_stays_in_the_command_line(self):
        self.assert_one_problem("planner/search.cc", "#include <CLI/CLI.hpp>\n", "CLI11")

    def test_blas_stays_in_the_cpu_kernels(self):
        self.assert_one_problem("engine/layers/linear.cc", "#include <cblas.h>\n", "BLAS")

    def test_an_unknown_library_is_reported(self):
        self.assert_one_problem("engine/layers/linear.cc", "#include <boost/any.hpp>\n", "unknown")

    def test_relative_includes_are_reported(self):
        self.write("engine/layers/norm.h", "#pragma once\n")
        self.assert_one_problem("engine/layers/norm.cc", '#include "norm.h"\n', "whole path")
        self.assert_one_problem("engine/layers/norm.cc", '#include "../layers/norm.h"\n', "whole path")

    def test_a_header_without_pragma_once_is_reported(self):
        self.assert_one_problem("engine/layers/norm.h", "#ifndef NORM_H\n", "#pragma once")

    def test_conditions_on_cuda_are_reported(self):
        self.assert_one_problem("engine/train/trainer.cc", "#if defined(TESSERA_CUDA)\n#endif\n",
                                "trainer.cc:1: `#if` on CUDA")


class HeadersTest(TreeTest):
    def test_a_header_that_leans_on_its_includer_is_reported(self):
        self.write("engine/good.h", "#pragma once\n#include <vector>\nstd::vector<int> A();\n")
        self.write("engine/bad.h", "#pragma once\nstd::vector<int> B();\n")
        self.write("engine/user.cc", '#include "engine/good.h"\n#include "engine/bad.h"\n')
        self.write_compile_commands("engine/user.cc")
        problems, num_files = check_headers.find_problems(self.root / "build", self.root, jobs=2)
        self.assertEqual(num_files, 2)
        self.assertEqual(len(problems), 1, problems)
        self.assertTrue(problems[0].startswith("engine/bad.h: does not compile alone"), problems)

    def test_a_source_file_includes_its_own_header_first(self):
        self.write("engine/norm.h", "#pragma once\n")
        self.write("engine/norm.cc", '#include <vector>\n#include "engine/norm.h"\n')
        self.write_compile_commands("engine/norm.cc")
        problems, _ = check_headers.find_problems(self.root / "build", self.root, jobs=1)
        self.assertEqual(problems, ["engine/norm.cc: its own header is not its first include"])

    def test_a_header_behind_another_file_of_a_unity_build_is_compiled_alone(self):
        self.write("engine/first.h", "#pragma once\n#include <vector>\n")
        self.write("engine/first.cc", '#include "engine/first.h"\n')
        self.write("engine/second.h", "#pragma once\nstd::vector<int> B();\n")
        self.write("engine/second.cc", '#include "engine/second.h"\n')
        self.write_unity_compile_commands("engine/first.cc", "engine/second.cc")
        problems, _ = check_headers.find_problems(self.root / "build", self.root, jobs=1)
        self.assertEqual(len(problems), 1, problems)
        self.assertTrue(problems[0].startswith("engine/second.h: does not compile alone"), problems)

    def test_headers_of_benchmarks_count_where_they_are_built(self):
        self.write("engine/user.cc", "int A();\n")
        self.write("tests/benchmarks/peaks.h", "#pragma once\n#include <no_such_library.h>\n")
        self.write("tests/benchmarks/run.cc", '#include "tests/benchmarks/peaks.h"\n')
        self.write_compile_commands("engine/user.cc")
        problems, _ = check_headers.find_problems(self.root / "build", self.root, jobs=1)
        self.assertEqual(problems, [])
        self.write_compile_commands("engine/user.cc", "tests/benchmarks/run.cc")
        problems, _ = check_headers.find_problems(self.root / "build", self.root, jobs=1)
        self.assertEqual(len(problems), 1, problems)


    def test_cuda_headers_count_where_their_files_are_built_for_the_host(self):
        self.write("engine/comm/world.cc", "int A();\n")
        self.write("engine/comm/nccl_error.h", "#pragma once\n#include <no_such_library.h>\n")
        self.write("kernels/cuda/tile.cuh", "#pragma once\nstd::vector<int> B();\n")
        self.write_compile_commands("engine/comm/world.cc")
        problems, _ = check_headers.find_problems(self.root / "build", self.root, jobs=1)
        self.assertEqual(problems, [])
        self.write_compile_commands("engine/comm/world.cc", "engine/comm/nccl_world.cc",
                                    "kernels/cuda/norm.cu")
        problems, _ = check_headers.find_problems(self.root / "build", self.root, jobs=1)
        self.assertEqual(len(problems), 2, problems)


class FormattingTest(TreeTest):
    def test_a_badly_formatted_file_is_reported(self):
        clang_format, reason = check_formatting.find_clang_format()
        if clang_format is None:
            self.skipTest(reason)
        self.write(".clang-format", (ROOT / ".clang-format").read_text())
        self.write("engine/good.cc", "int F(int a) { return a; }\n")
        self.write("engine/bad.cc", "int  G( int a ){return a;}\n")
        problems, num_files = check_formatting.find_problems(clang_format, self.root)
        self.assertEqual(num_files, 2)
        self.assertEqual(problems,
                         ["engine/bad.cc:1: not formatted: run clang-format -i engine/bad.cc"])


class TestsBuiltTest(TreeTest):
    def test_a_test_in_no_target_is_reported(self):
        self.write("tests/spec/a_test.cc", "")
        self.write("tests/spec/b_test.cc", "")
        self.write_compile_commands("tests/spec/a_test.cc")
        problems, _ = check_tests_built.find_problems(self.root / "build", self.root)
        self.assertEqual(len(problems), 1, problems)
        self.assertTrue(problems[0].startswith("tests/spec/b_test.cc: in no target"))

    def test_tests_that_are_compiled_together_are_built(self):
        self.write("tests/spec/a_test.cc", "")
        self.write("tests/spec/b_test.cc", "")
        self.write_unity_compile_commands("tests/spec/a_test.cc", "tests/spec/b_test.cc")
        self.assertEqual(check_tests_built.find_problems(self.root / "build", self.root), ([], 2))

    def test_a_switched_off_test_is_reported(self):
        self.write("tests/spec/a_test.cc", "TEST(Plan, DISABLED_RoundTrips) {}\n#if 0\n#endif\n")
        self.write_compile_commands("tests/spec/a_test.cc")
        problems, _ = check_tests_built.find_problems(self.root / "build", self.root)
        self.assertEqual(len(problems), 2, problems)


class WordsTest(TreeTest):
    def test_paths_of_one_machine_are_reported(self):
        self.write("README.md", "Data lies in " + "/" + "work/data.\n")
        self.write("tests/a_test.cc", '"' + ".." + '/shared/golden"\n')
        self.write("scripts/run.sh", "cd " + "/" + "root/x; cd /" + "home/me\n")
        problems, _ = check_words.find_problems(self.root)
        self.assertEqual(len(problems), 4, problems)

    def test_ordinary_words_pass(self):
        self.write("README.md", "a/work/b, work/, https://a.b/root/x, the network/work split\n")
        self.assertEqual(check_words.find_problems(self.root), ([], 1))


class SizesTest(TreeTest):
    def problems_of(self, text, path="engine/a.cc"):
        self.write(path, text)
        problems, _ = check_sizes.find_problems(self.root)
        return problems

    def test_a_long_function_is_reported_at_its_signature(self):
        body = "  Call();\n" * 59
        text = f"namespace a {{\n\nvoid Short() {{\n  Call();\n}}\n\nvoid Long(int x,\n          int y) {{\n{body}}}\n\n}}\n"
        self.assertEqual(self.problems_of(text),
                         ["engine/a.cc:7: a function of 62 lines, at most 60"])

    def test_a_long_method_inside_its_class_is_reported(self):
        body = "    Call();\n" * 60
        text = f"class A {{\n public:\n  int Long() const {{\n{body}  }}\n  int x_ = 0;\n}};\n"
        self.assertEqual(self.problems_of(text),
                         ["engine/a.cc:3: a function of 62 lines, at most 60"])

    def test_a_switch_that_names_values_does_not_count(self):
        rows = "".join(f"    case Kind::k{i}:\n      return \"k{i}\";\n" for i in range(40))
        self.assertEqual(self.problems_of(f"int Name(Kind kind) {{\n  switch (kind) {{\n{rows}  }}\n}}\n"),
                         [])

    def test_tests_may_hold_long_tables(self):
        self.assertEqual(self.problems_of("TEST(A, B) {\n" + "  Row();\n" * 70 + "}\n",
                                          "tests/engine/a_test.cc"), [])

    def test_a_long_file_is_reported_wherever_it_is(self):
        self.assertEqual(self.problems_of("// x\n" * 401, "tests/engine/a_test.cc"),
                         ["tests/engine/a_test.cc: 401 lines, at most 400: split by concern"])


class KernelResourcesTest(unittest.TestCase):
    """A report of ptxas with one kernel, _ZN1k10NormKernelIfEEvPT_: k::NormKernel<float>."""

    def kernels(self, spilled_bytes):
        kernels = check_kernel_resources.parse_report(
            "ptxas info    : 0 bytes gmem\n"
            "ptxas info    : Compiling entry function '_ZN1k10NormKernelIfEEvPT_' for 'sm_90'\n"
            "ptxas info    : Function properties for _ZN1k10NormKernelIfEEvPT_\n"
            f"    8 bytes stack frame, {spilled_bytes} bytes spill stores, 0 bytes spill loads\n"
            "ptxas info    : Used 62 registers, used 1 barriers, 8 bytes stack, 512 bytes smem\n")
        check_kernel_resources.name_instances(kernels)
        return kernels

    def test_registers_and_names_are_read(self):
        (kernel,) = self.kernels(0)
        self.assertEqual((kernel.instance, kernel.name), ("NormKernel<float>", "NormKernel"))
        self.assertEqual((kernel.registers, kernel.shared_bytes, kernel.stack_bytes), (62, 512, 8))

    def test_a_hot_kernel_may_not_spill(self):
        self.assertEqual(check_kernel_resources.find_problems(self.kernels(0), ["NormKernel"]), [])
        self.assertEqual(check_kernel_resources.find_problems(self.kernels(4), ["NormKernel"]),
                         ["NormKernel<float> of sm_90: 4 bytes spilled"])
        self.assertEqual(check_kernel_resources.find_problems(self.kernels(4), []), [])

    def test_a_hot_kernel_that_is_gone_is_reported(self):
        self.assertEqual(check_kernel_resources.find_problems(self.kernels(0), ["RopeKernel"]),
                         ["RopeKernel: in hot_kernels.txt, but no such kernel was compiled"])


if __name__ == "__main__":
    unittest.main()
