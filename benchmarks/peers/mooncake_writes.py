"""Writes of pages between two processes by Mooncake's transfer engine over tcp; it returns when they are applied."""

import json
import os
import subprocess
import sys
import time

import pages

POOL = {"MC_TCP_ENABLE_CONNECTION_POOL": "1", "MC_TCP_MAX_QUEUED_TRANSFERS_PER_PEER": "65535",
        "MC_TCP_MAX_PENDING_ADMISSIONS_PER_PEER": "65535", "MC_TCP_ADMISSION_TIMEOUT_MS": "600000"}
PROFILES = {
    "default": {},  # as shipped: one connection per page
    "tuned": dict(POOL, MC_TCP_LANES_PER_PEER="16", MC_TCP_SLICE_SIZE=str(1 << 20)),
}
COMMON = {"MC_FORCE_TCP": "1", "MC_LOG_LEVEL": "ERROR", "GLOG_minloglevel": "2"}


def open_engine(memory):
    from mooncake.engine import TransferEngine
    engine = TransferEngine()
    if engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") != 0:
        sys.exit("Mooncake cannot be initialized")
    if engine.register_memory(memory.address, memory.size) != 0:
        sys.exit("Mooncake does not take the memory")
    return engine


def run_target(arguments):
    target_fd, answer_fd = (int(fd) for fd in arguments.target.split(":"))
    memory = pages.Memory(arguments.memory_bytes, target_fd)
    engine = open_engine(memory)
    session = f"127.0.0.1:{engine.get_rpc_port()}"
    os.write(answer_fd, (json.dumps({"session": session, "address": memory.address}) + "\n").encode())
    sys.stdin.read()
    os._exit(0)


def run_source(arguments):
    source = pages.Memory(arguments.memory_bytes)
    source.fill()
    target = pages.Memory(arguments.memory_bytes)
    read_fd, write_fd = os.pipe()
    child = subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--target", f"{target.fd}:{write_fd}"],
                             pass_fds=(target.fd, write_fd), stdin=subprocess.PIPE, stdout=sys.stderr)
    os.close(write_fd)
    line = os.fdopen(read_fd).readline()
    if not line:
        sys.exit("the target did not start")
    peer = json.loads(line)
    engine = open_engine(source)
    engine.get_first_buffer_address(peer["session"])

    def batches(shape):
        for offsets in shape.lists(arguments.list_pages):
            yield ([source.address + o for o in offsets], [peer["address"] + o for o in offsets],
                   [shape.page_bytes] * len(offsets))

    def send(lists):
        for first in range(0, len(lists), arguments.depth):
            ids = [engine.batch_transfer_async_write(peer["session"], *batch)
                   for batch in lists[first:first + arguments.depth]]
            if 0 in ids or engine.get_batch_transfer_status(ids) != 0:
                raise RuntimeError("a batch failed")

    rows = []
    for shape in arguments.shapes:
        lists = list(batches(shape))
        target.clear()
        send(lists)
        passes, begin = 0, time.perf_counter()
        while passes == 0 or time.perf_counter() - begin < arguments.seconds:
            send(lists)
            passes += 1
        seconds = time.perf_counter() - begin
        rows.append({"page_bytes": shape.page_bytes, "gb_per_s": passes * shape.bytes() / seconds / 1e9,
                     "fault": shape.fault(source, target)})
    child.stdin.close()
    pages.report(f"mooncake {arguments.profile}", rows)
    os._exit(0)


def main():
    arguments = pages.parse_arguments(__doc__)
    os.environ.update(COMMON)
    os.environ.update(PROFILES[arguments.profile])
    if arguments.target:
        run_target(arguments)
    else:
        run_source(arguments)


main()
