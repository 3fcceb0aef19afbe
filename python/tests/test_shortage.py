"""Who is asked for help when memory is short."""

import sys
import threading

import pytest
import stitchpool

MIB = 1 << 20


@pytest.fixture
def small():
    with stitchpool.Pool("host", capacity=64 * MIB) as pool:
        yield pool


def test_relief_frees_and_the_request_is_served(small):
    held, told = [small.alloc(20 * MIB) for _ in range(3)], []

    def relief(shortage):
        told.append(shortage)
        if held:
            held.pop().free()
            return True
        return False

    small.on_shortage(relief)
    small.alloc(40 * MIB).free()
    assert len(told) == 2 and told[0].asked_bytes == 40 * MIB
    assert "asked for" in told[0].words and told[0].devices[0].live_bytes == 60 * MIB
    held.clear()


def test_relief_that_raises_is_a_no(small):
    def relief(_):
        raise RuntimeError("no relief")

    small.on_shortage(relief)
    unraised = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda told: unraised.append(str(told.exc_value))
    try:
        with small.alloc(60 * MIB):
            with pytest.raises(stitchpool.OutOfMemory):
                small.alloc(60 * MIB)
    finally:
        sys.unraisablehook = hook
    assert unraised == ["no relief"]


def test_nobody_is_asked_any_more(small):
    told = []
    small.on_shortage(told.append)
    small.on_shortage(None)
    with small.alloc(60 * MIB):
        with pytest.raises(stitchpool.OutOfMemory):
            small.alloc(60 * MIB)
    assert not told


def test_relief_may_use_the_pool_but_not_close_it(small):
    seen = []

    def relief(_):
        small.alloc(512).free()
        try:
            small.close()
        except stitchpool.InUse as refused:
            seen.append(str(refused))
        return False

    small.on_shortage(relief)
    block = small.alloc(60 * MIB)
    with pytest.raises(stitchpool.OutOfMemory):
        small.alloc(60 * MIB)
    assert len(seen) == 1
    block.free()


def test_f41_a_callback_and_a_caller_may_want_the_same_lock(small):
    lock, rounds = threading.Lock(), 200

    def relief(_):
        with lock:
            return False

    small.on_shortage(relief)
    block = small.alloc(60 * MIB)

    def short():
        for _ in range(rounds):
            with pytest.raises(stitchpool.OutOfMemory):
                small.alloc(60 * MIB)

    thread = threading.Thread(target=short)
    thread.start()
    for _ in range(rounds):
        with lock:
            small.alloc(512).free()
    thread.join(60)
    assert not thread.is_alive()
    block.free()
