"""Memory in several processes: each test's other process is a real one."""

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest
import stitchpool

MIB = 1 << 20
HOST = {"driver": "host", "capacity": 256 * MIB}


@pytest.fixture
def pool():
    with stitchpool.Pool("host", capacity=256 * MIB, handle_kind="file_descriptor") as pool:
        yield pool


def read_and_write(ticket, answers):
    """Runs in another process."""
    with stitchpool.import_ticket(ticket, {0: "read_write"}, **HOST) as memory:
        found = ctypes.string_at(memory.address, 5)
        ctypes.memmove(memory.address + MIB, b"child", 5)
        answers.put((found, memory.bytes, memory.gone))


@pytest.mark.parametrize("how", ["spawn", "forkserver"])
def test_another_process_reads_and_writes_a_block_by_its_ticket(pool, how):
    family = multiprocessing.get_context(how)
    with pool.alloc(4 * MIB, exclusive=True) as block:
        memoryview(block)[:5] = b"owner"
        with pool.export(block, "read_write") as offer:
            assert len(offer.ticket) == 256 and offer.bytes == 4 * MIB
            answers = family.Queue()
            child = family.Process(target=read_and_write, args=(offer.ticket, answers))
            child.start()
            assert answers.get(timeout=60) == (b"owner", 4 * MIB, None)
            child.join()
            assert child.exitcode == 0
            assert bytes(memoryview(block)[MIB : MIB + 5]) == b"child"


def test_the_same_memory_is_the_same_ticket_and_one_import(pool):
    with pool.alloc(2 * MIB, exclusive=True) as block:
        with pool.export(block) as offer, pool.export(block) as twin:
            assert offer.ticket == twin.ticket and offer.generation == twin.generation
            with stitchpool.import_ticket(offer.ticket, **HOST) as one:
                with stitchpool.import_ticket(twin.ticket, **HOST) as other:
                    assert one.address == other.address and one.importer is other.importer
                assert one.parts == [(one.address, 2 * MIB)]
                assert one.translate(block.address + 7) == one.address + 7
                assert one.translate(block.address - 1) is None


def test_exported_memory_stays_until_it_is_recalled(pool):
    with pool.alloc(2 * MIB, exclusive=True) as block, pool.export(block) as offer:
        with pytest.raises(stitchpool.InUse, match="exports"):
            block.suspend()
        memory = stitchpool.import_ticket(offer.ticket, **HOST)
        hold = memory.hold()
        with pytest.raises(stitchpool.InUse, match=f"process {os.getpid()}"):
            offer.recall(within=0.05)
        hold.close()
        offer.recall()
        assert "recalled" in memory.gone
        with pytest.raises(stitchpool.Gone):
            memory.address
        with pytest.raises(stitchpool.Gone, match="stale"):
            stitchpool.import_ticket(offer.ticket, **HOST)
        block.suspend()
        block.resume()


def test_an_arena_and_lists_of_parts_are_exported(pool):
    arena = pool.arena("weights")
    blocks = [pool.alloc(bytes, arena=arena) for bytes in (MIB, 3 * MIB)]
    extra = pool.alloc(2 * MIB, exclusive=True)
    with pool.export([arena, extra, (blocks[0].address, 512)]) as offer:
        with stitchpool.import_ticket(offer.ticket, **HOST) as memory:
            assert sorted(bytes for _, bytes in memory.parts) == [512, MIB, 2 * MIB, 3 * MIB]
    for block in [*blocks, extra]:
        block.free()


def test_refusals_say_what_to_do(pool):
    with stitchpool.Pool("host", capacity=64 * MIB) as private:
        with private.alloc(MIB) as block, pytest.raises(stitchpool.InvalidRequest, match="kind FileDescriptor"):
            private.export(block)
    with pool.alloc(2 * MIB, exclusive=True) as block:
        with pytest.raises(stitchpool.InvalidRequest, match="read_write"):
            pool.export(block, "everything")
        with pool.export(block) as offer:
            with pytest.raises(stitchpool.NoRights):
                stitchpool.import_ticket(offer.ticket, {0: "read_write"}, **HOST)
            ticket = bytearray(offer.ticket)
        for broken in (b"", bytes(ticket[:-1]), bytes(256)):
            with pytest.raises(stitchpool.InvalidRequest, match="no ticket"):
                stitchpool.import_ticket(broken, **HOST)
    with pytest.raises(stitchpool.SharingError) as refused:
        pool.exporter("/nowhere/at/all.sock")
    assert refused.value.status == "SOCKET"


def test_an_exporter_at_a_path_answers_when_it_is_told_to(pool, tmp_path):
    path = tmp_path / "door.sock"
    with pool.alloc(2 * MIB, exclusive=True) as block, pool.exporter(path) as exporter:
        with exporter.export(block) as offer:
            with pytest.raises(stitchpool.SharingError, match="is its exporter served"):
                stitchpool.import_ticket(offer.ticket, patience=0.05, **HOST)
            program = f"import stitchpool; stitchpool.import_ticket({offer.ticket!r}, driver='host')"
            child = subprocess.Popen([sys.executable, "-c", program])
            while child.poll() is None:
                exporter.answer(wait=0.05)
            assert child.returncode == 0
            exporter.answer()
            assert sum(imports for _, imports, _ in exporter.guests()) == 0
    assert not path.exists()


OWNER = """
import os, sys, time, stitchpool
pool = stitchpool.Pool("host", capacity=64 << 20, handle_kind="file_descriptor")
block = pool.alloc(4 << 20, exclusive=True)
offer = pool.export(block)
print(offer.ticket.hex(), flush=True)
sys.stdin.readline()
if os.fork() == 0:
    # A child that outlives its parent keeps every socket of it open.
    time.sleep(60)
    os._exit(0)
print("forked", flush=True)
time.sleep(60)
"""


def test_f48_memory_of_a_dead_process_goes_within_seconds_though_a_forked_child_of_it_lives():
    words, pipe = [sys.executable, "-W", "ignore", "-c", OWNER], subprocess.PIPE
    owner = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
    try:
        memory = stitchpool.import_ticket(bytes.fromhex(owner.stdout.readline()), **HOST)
        assert memory.gone is None
        print("fork", file=owner.stdin, flush=True)
        assert owner.stdout.readline() == "forked\n"
        owner.kill()
        owner.wait()
        until = time.monotonic() + 2
        while memory.gone is None and time.monotonic() < until:
            time.sleep(0.01)
        assert "has ended" in memory.gone
        with pytest.raises(stitchpool.Gone):
            memory.address
    finally:
        os.killpg(owner.pid, signal.SIGKILL)
        owner.stdin.close()
        owner.stdout.close()


RANK = """
import sys, stitchpool
try:
    stitchpool.import_ticket(bytes.fromhex(sys.argv[1]), {0: "read", int(sys.argv[2]): "read"}, "host")
    print("mapped")
except stitchpool.Error as error:
    print(type(error).__name__, error)
"""


def test_f60_a_group_imports_all_or_nothing(pool):
    def play(devices):
        words = [sys.executable, "-c", RANK, offer.ticket.hex()]
        ranks = [subprocess.Popen([*words, str(device)], stdout=subprocess.PIPE, text=True) for device in devices]
        return [rank.communicate(timeout=60)[0] for rank in ranks]

    with pool.alloc(4 * MIB, exclusive=True) as block, pool.export(block, ranks=4, within=30.0) as offer:
        # The third has no second device to give rights to.
        said = play([0, 0, 1, 0])
        assert all("CalledOff" in said[rank] for rank in (0, 1, 3)), said
        assert "UnknownDevice" in said[2], said
        assert play([0, 0, 0, 0]) == ["mapped\n"] * 4


def test_a_forked_child_has_nothing_of_its_parents_and_takes_nothing_away(pool):
    with pool.alloc(2 * MIB, exclusive=True) as block, pool.export(block) as offer:
        with stitchpool.import_ticket(offer.ticket, **HOST) as memory:
            child = os.fork()
            if child == 0:
                try:
                    with pytest.raises(stitchpool.Closed):
                        pool.export(block)
                    with pytest.raises(stitchpool.Closed):
                        memory.address
                    memory.close()
                finally:
                    os._exit(0 if memory.gone is None else 1)
            assert os.waitpid(child, 0)[1] == 0
            assert memory.gone is None and ctypes.string_at(memory.address, 1) is not None
            offer.recall()
