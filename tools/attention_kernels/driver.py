"""Compiles variants and launches their kernels through the CUDA driver, on PyTorch's context and stream."""

import ctypes
from concurrent.futures import ThreadPoolExecutor

import nvrtc
import torch


class Driver:
    """The first CUDA device."""

    device = "cuda"

    def __init__(self):
        torch.zeros(1, device="cuda")
        self.cuda = ctypes.CDLL("libcuda.so.1")
        major, minor = torch.cuda.get_device_capability()
        self.architecture = "sm_90a" if major == 9 else f"sm_{major}{minor}"
        self.multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
        self.modules = {}

    def prepare(self, wanted):
        """Compiles many (path, case, headers) at once."""
        keyed = {self._key(path, case): (path, case, headers) for path, case, headers in wanted}
        keyed = {key: item for key, item in keyed.items() if key not in self.modules}
        with ThreadPoolExecutor(12) as pool:
            codes = list(pool.map(lambda item: self._compile(*item), keyed.values()))
        for key, code in zip(keyed, codes):
            self.modules[key] = Module(self, code)

    def module(self, path, case, headers, edits=()):
        key = self._key(path, case, edits)
        if key not in self.modules:
            self.modules[key] = Module(self, self._compile(path, case, headers, edits))
        return self.modules[key]

    def _key(self, path, case, edits=()):
        return path.name, tuple(case.options(self.architecture)), edits

    def _compile(self, path, case, headers, edits=()):
        return nvrtc.compile(path, case.options(self.architecture), headers, edits)[0]

    def check(self, status):
        if status != 0:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorString(status, ctypes.byref(text))
            raise RuntimeError(f"CUDA error {status}: {text.value.decode() if text.value else ''}")

    def tensor_maps(self, matrices):
        """Tensor maps of bf16 matrices (address, sizes, strides in bytes), one behind the other: boxes of 64 × 32, swizzled over 128 bytes."""
        room = (ctypes.c_uint8 * (128 * len(matrices) + 64))()
        start = -ctypes.addressof(room) % 64
        maps = (ctypes.c_uint8 * (128 * len(matrices))).from_buffer(room, start)
        for i, (address, sizes, strides) in enumerate(matrices):
            rank = len(sizes)
            status = self.cuda.cuTensorMapEncodeTiled(
                ctypes.c_void_p(ctypes.addressof(maps) + 128 * i), 9, rank, ctypes.c_void_p(address),
                (ctypes.c_uint64 * rank)(*sizes), (ctypes.c_uint64 * (rank - 1))(*strides),
                (ctypes.c_uint32 * rank)(64, 32, *[1] * (rank - 2)), (ctypes.c_uint32 * rank)(*[1] * rank), 0, 3, 2, 0,
            )  # fmt: skip
            self.check(status)
        return maps

    def synchronize(self):
        torch.cuda.synchronize()


class Module:
    """A compiled variant of a source file."""

    def __init__(self, driver, code):
        self.driver, self.functions, self.known = driver, {}, {}
        self.handle = ctypes.c_void_p()
        driver.check(driver.cuda.cuModuleLoadData(ctypes.byref(self.handle), code))

    def function(self, name, shared):
        if name not in self.functions:
            handle, cuda = ctypes.c_void_p(), self.driver.cuda
            self.driver.check(cuda.cuModuleGetFunction(ctypes.byref(handle), self.handle, name.encode()))
            # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.driver.check(cuda.cuFuncSetAttribute(handle, 8, shared))
            self.functions[name] = handle
        return self.functions[name]

    def integers(self, name, count):
        """A global array of integers of the module."""
        if name not in self.known:
            address, size, cuda = ctypes.c_uint64(), ctypes.c_size_t(), self.driver.cuda
            status = cuda.cuModuleGetGlobal_v2(ctypes.byref(address), ctypes.byref(size), self.handle, name.encode())
            self.driver.check(status)
            values = (ctypes.c_int * count)()
            self.driver.check(cuda.cuMemcpyDtoH_v2(values, address, 4 * count))
            self.known[name] = list(values)
        return self.known[name]

    def launch(self, name, grid, threads, shared, *arguments):
        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(argument) for argument in arguments))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        status = self.driver.cuda.cuLaunchKernel(
            self.function(name, shared), *grid, threads, 1, 1, shared, stream, pointers, None
        )
        self.driver.check(status)
