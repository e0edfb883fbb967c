"""Writes of pages between two processes by NIXL's UCX backend, to the target's answer."""

import importlib
import os
import subprocess
import sys
import time
from multiprocessing.connection import Client, Listener

import pages

# Which transports UCX may take.
PROFILES = {
    "tcp": ({"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}, {}),
    "shm": ({"UCX_TLS": "posix,cma,self"}, {"ucx_error_handling_mode": "none"}),
}


def load_nixl():
    for package in ("nixl_cu13", "nixl_cu12", "nixl"):
        try:
            return importlib.import_module(f"{package}._api")
        except ImportError:
            continue
    sys.exit("no NIXL package can be imported")


class Side:
    def __init__(self, name, memory, parameters):
        api = load_nixl()
        self.agent = api.nixl_agent(name, api.nixl_agent_config(enable_prog_thread=False, backends=[]))
        self.agent.create_backend("UCX", parameters)
        self.memory = memory
        self.agent.register_memory([(memory.address, memory.size, 0, "")], "DRAM", ["UCX"])

    def receive(self, pipe):
        """The next word of the other side; NIXL moves on meanwhile."""
        while not pipe.poll(0):
            self.agent.get_new_notifs(["UCX"])
        return pipe.recv()

    def wait_notifications(self, peer, count):
        seen = 0
        deadline = time.monotonic() + 60
        while seen < count:
            for who, messages in self.agent.get_new_notifs(["UCX"]).items():
                seen += len(messages) if who == peer else 0
            if time.monotonic() > deadline:
                raise TimeoutError(f"{seen} of {count} notifications came")


def run_target(arguments, parameters):
    fd, path = arguments.target.split(":", 1)
    side = Side("target", pages.Memory(arguments.memory_bytes, int(fd)), parameters)
    pipe = Client(path, family="AF_UNIX")
    pipe.send((side.agent.get_agent_metadata(), side.memory.address))
    side.agent.add_remote_agent(side.receive(pipe))
    pipe.send("ready")
    while count := side.receive(pipe):
        pipe.send("armed")
        side.wait_notifications("source", count)
        pipe.send("arrived")
    os._exit(0)


def transfer(side, pipe, make, count, depth):
    """Seconds until the target has seen `count` lists."""
    pipe.send(count)
    assert side.receive(pipe) == "armed"
    begin = time.perf_counter()
    made, outstanding = 0, []
    while made < count or outstanding:
        while made < count and len(outstanding) < depth:
            handle = make(made)
            if side.agent.transfer(handle, b"x") == "ERR":
                raise RuntimeError("a transfer was refused")
            outstanding.append(handle)
            made += 1
        still = []
        for handle in outstanding:
            state = side.agent.check_xfer_state(handle)
            if state == "PROC":
                still.append(handle)
            elif state != "DONE":
                raise RuntimeError(f"a transfer ended as {state}")
            else:
                handle.release()
        outstanding = still
    assert side.receive(pipe) == "arrived"
    return time.perf_counter() - begin


def run_source(arguments, parameters):
    source = pages.Memory(arguments.memory_bytes)
    source.fill()
    target = pages.Memory(arguments.memory_bytes)
    path = f"/tmp/nixl_writes.{os.getpid()}"
    listener = Listener(path, family="AF_UNIX")
    child = subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--target", f"{target.fd}:{path}"],
                             pass_fds=(target.fd,), stdout=sys.stderr)
    pipe = listener.accept()
    os.unlink(path)
    side = Side("source", source, parameters)
    metadata, remote_address = side.receive(pipe)
    pipe.send(side.agent.get_agent_metadata())
    peer = side.agent.add_remote_agent(metadata)
    peer = peer.decode() if isinstance(peer, bytes) else peer
    assert side.receive(pipe) == "ready"

    rows = []
    for shape in arguments.shapes:
        local = [(source.address + o, shape.page_bytes, 0) for o in shape.offsets]
        remote = [(remote_address + o, shape.page_bytes, 0) for o in shape.offsets]
        local_list = side.agent.prep_xfer_dlist("NIXL_INIT_AGENT", local, "DRAM", ["UCX"])
        remote_list = side.agent.prep_xfer_dlist(peer, remote, "DRAM", ["UCX"])
        length = min(arguments.list_pages, len(local))
        lists = [list(range(i, min(i + length, len(local)))) for i in range(0, len(local), length)]

        def make(number):
            chosen = lists[number % len(lists)]
            return side.agent.make_prepped_xfer("WRITE", local_list, chosen, remote_list, chosen, b"x", ["UCX"])

        target.clear()
        passes, seconds = 1, transfer(side, pipe, make, len(lists), arguments.depth)
        passes = max(1, int(arguments.seconds / seconds))
        seconds = transfer(side, pipe, make, passes * len(lists), arguments.depth)
        rows.append({"page_bytes": shape.page_bytes, "gb_per_s": passes * shape.bytes() / seconds / 1e9,
                     "fault": shape.fault(source, target)})
        local_list.release()
        remote_list.release()
    pipe.send(0)
    child.wait(20)
    pages.report(f"nixl {arguments.profile}", rows)
    os._exit(0)


def main():
    arguments = pages.parse_arguments(__doc__)
    environment, parameters = PROFILES[arguments.profile]
    os.environ.update(environment)
    if arguments.target:
        run_target(arguments, parameters)
    else:
        run_source(arguments, parameters)


main()
