"""What a machine with an NVIDIA GPU has: the card, CUDA's compiler, headers and libraries."""

import ctypes
import dataclasses
import glob
import os
import pathlib
import shutil
import subprocess
import sys

# Where the driver's library may lie without the loader knowing.
DRIVER_FOLDERS = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/wsl/lib")
COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR, MULTIPROCESSORS = 75, 76, 16


@dataclasses.dataclass
class Card:
    name: str
    architecture: str  # "90"
    num_multiprocessors: int
    memory_bytes: int
    count: int
    driver_folder: str  # "" where the loader finds the driver by itself


def load_driver():
    """(libcuda, folder it came from, "" for the loader's own), or (None, "")."""
    for folder in ("", *DRIVER_FOLDERS):
        try:
            return ctypes.CDLL(os.path.join(folder, "libcuda.so.1")), folder
        except OSError:
            continue
    return None, ""


def query_card():
    """The first GPU, or None with the reason on the standard error."""
    driver, folder = load_driver()
    count = ctypes.c_int()
    if driver is None:
        print("gpu_check: no NVIDIA driver here (libcuda.so.1)", file=sys.stderr)
        return None
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or not count.value:
        print("gpu_check: the driver sees no GPU", file=sys.stderr)
        return None
    device = ctypes.c_int()
    driver.cuDeviceGet(ctypes.byref(device), 0)

    def attribute(number):
        value = ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(value), number, device)
        return value.value

    name = ctypes.create_string_buffer(256)
    driver.cuDeviceGetName(name, len(name), device)
    memory = ctypes.c_size_t()
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    return Card(name=name.value.decode(),
                architecture=f"{attribute(COMPUTE_CAPABILITY_MAJOR)}"
                             f"{attribute(COMPUTE_CAPABILITY_MINOR)}",
                num_multiprocessors=attribute(MULTIPROCESSORS),
                memory_bytes=memory.value, count=count.value, driver_folder=folder)


def find_nvcc():
    """Path of nvcc, or None."""
    candidates = [shutil.which("nvcc"), *sorted(glob.glob("/usr/local/cuda*/bin/nvcc"))]
    return next((os.path.realpath(path) for path in candidates if path and os.path.exists(path)), None)


def python_package_folders():
    """The folders of NVIDIA's libraries among the packages of python3."""
    try:
        code = "import site, sysconfig; print(sysconfig.get_paths()['purelib']); " \
               "print('\\n'.join(site.getsitepackages()))"
        done = subprocess.run(["python3", "-c", code], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    found = []
    for folder in dict.fromkeys(done.stdout.split("\n")):
        if folder:
            found += sorted(glob.glob(os.path.join(folder, "nvidia", "*")))
    return found


class Toolkit:
    """Headers and libraries of CUDA: the toolkit's own first, then those of Python packages, then
    the headers of the bundle."""

    def __init__(self, nvcc, bundle, packages=None):
        self.root = pathlib.Path(nvcc).parent.parent
        packages = python_package_folders() if packages is None else packages
        roots = [self.root, self.root / "targets/x86_64-linux", *map(pathlib.Path, packages)]
        self.own_includes = [self.root / "include", self.root / "targets/x86_64-linux/include"]
        self.includes = [root / "include" for root in roots]
        if bundle is not None:
            self.includes.append(bundle / "cuda_include")
        self.libraries = [folder for root in roots for folder in (root / "lib64", root / "lib")]

    def header_folder(self, name):
        return next((folder for folder in self.includes if (folder / name).exists()), None)

    def library(self, name):
        """Path of libNAME.so, with or without a version."""
        for folder in self.libraries:
            for pattern in (f"lib{name}.so", f"lib{name}.so.*"):
                found = sorted(glob.glob(str(folder / pattern)))
                if found:
                    return pathlib.Path(found[0])
        return None

    def library_folders(self, names=("cudart", "cublasLt", "nccl", "cudnn", "nvrtc")):
        """For LD_LIBRARY_PATH."""
        found = [self.library(name) for name in names]
        return list(dict.fromkeys(str(path.parent) for path in found if path is not None))

    def cmake_options(self):
        """What CMake does not find by itself, as -D options."""
        options = []
        nccl, header = self.library("nccl"), self.header_folder("nccl.h")
        if nccl is not None and header is not None:
            options += [f"-DTESSERA_NCCL_LIBRARY={nccl}", f"-DTESSERA_NCCL_INCLUDE_DIR={header}"]
        for variable, name in (("TESSERA_CUDNN_INCLUDE_DIR", "cudnn_version.h"),
                               ("TESSERA_CUDNN_FRONTEND_INCLUDE_DIR", "cudnn_frontend.h")):
            folder = self.header_folder(name)
            if folder is not None:
                options.append(f"-D{variable}={folder}")
        cublaslt = self.library("cublasLt")
        if cublaslt is not None:
            options.append(f"-DCUDA_cublasLt_LIBRARY={cublaslt}")
        header = self.header_folder("cublasLt.h")
        if header is not None and header not in self.own_includes:
            options.append(f"-DCMAKE_CXX_FLAGS=-isystem {header}")
        return options
