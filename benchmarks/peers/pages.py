"""The pages that a driver of another library moves: the same shapes as kvrail-perf's."""

import argparse
import ctypes
import json
import mmap
import os
import sys


def parse_size(text):
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


class Memory:
    """`size` bytes at `address`; a memory file that another process may map as well."""

    def __init__(self, size, fd=None):
        self.fd = os.memfd_create("pages") if fd is None else fd
        if fd is None:
            os.ftruncate(self.fd, size)
        self.size = size
        self.map = mmap.mmap(self.fd, size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))

    def fill(self):
        block = os.urandom(1 << 20)
        for at in range(0, self.size, len(block)):
            # No two megabytes alike, and no page like its neighbour.
            turn = (at // len(block) * 4099) % len(block)
            part = block[turn:] + block[:turn]
            self.map[at:at + len(block)] = part[:self.size - at]

    def clear(self):
        ctypes.memset(self.address, 0, self.size)


class Shape:
    """Pages of one size: where they are, which is the same place on both sides."""

    def __init__(self, page_bytes, pages, layout):
        self.page_bytes = page_bytes
        step = page_bytes if layout == "neighbouring" else 2 * page_bytes
        self.offsets = [i * step for i in range(pages)]

    def lists(self, pages_per_list):
        for first in range(0, len(self.offsets), pages_per_list):
            yield self.offsets[first:first + pages_per_list]

    def bytes(self):
        return self.page_bytes * len(self.offsets)

    def fault(self, source, target):
        for offset in self.offsets:
            end = offset + self.page_bytes
            if source.map[offset:end] != target.map[offset:end]:
                return f"wrong bytes in the page at {offset}"
        return ""


def parse_arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--page-bytes", default="4K,64K,1M")
    parser.add_argument("--pages", type=int, default=1024)
    parser.add_argument("--max-memory", default="64M", help="fewer pages where they would take more")
    parser.add_argument("--layout", choices=("neighbouring", "apart"), default="apart")
    parser.add_argument("--list-pages", type=int, default=64)
    parser.add_argument("--depth", type=int, default=16, help="lists outstanding")
    parser.add_argument("--seconds", type=float, default=0.3, help="least time of a size")
    parser.add_argument("--cores", default="", help="of the source and the target, as in 0,1")
    parser.add_argument("--profile", default="default")
    parser.add_argument("--target", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.shapes = []
    for text in arguments.page_bytes.split(","):
        size = parse_size(text)
        pages = min(arguments.pages, parse_size(arguments.max_memory) // size)
        arguments.shapes.append(Shape(size, pages, arguments.layout))
    arguments.memory_bytes = max(s.offsets[-1] + s.page_bytes for s in arguments.shapes)
    if arguments.cores:
        cores = [int(core) for core in arguments.cores.split(",")]
        os.sched_setaffinity(0, {cores[arguments.target is not None]})
    return arguments


def report(name, rows):
    json.dump({"contender": name, "rows": rows}, sys.stdout)
    print(flush=True)
