"""The C interface in the wheel's library: all of it, and the same pools."""

import ctypes
import pathlib
import re
import subprocess
import sys

import pytest
import stitchpool

MIB = 1 << 20


@pytest.fixture(scope="module")
def library():
    return ctypes.CDLL(stitchpool.library())


def declared():
    header = (pathlib.Path(stitchpool.library()).parent / "stitchpool.h").read_text()
    code = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    return set(re.findall(r"\b(stitchpool_\w+)\(", code))


def test_the_library_has_every_function_of_the_header(library):
    functions = declared()
    assert {"stitchpool_alloc", "stitchpool_torch_malloc", "stitchpool_version"} <= functions
    missing = [function for function in functions if not hasattr(library, function)]
    assert not missing


def test_the_library_shows_nothing_else():
    try:
        listed = subprocess.run(
            ["nm", "-D", "--defined-only", stitchpool.library()], capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        pytest.skip("nm is not installed")
    shown = {line.split()[-1].split("@")[0] for line in listed.stdout.splitlines()}
    assert shown == declared() | {"PyInit__native"}


def test_it_is_the_library_that_python_uses(library):
    version = library.stitchpool_version()
    words = f"{version // 1_000_000}.{version // 1000 % 1000}.{version % 1000}"
    assert words == stitchpool.__version__


def test_python_and_c_share_a_pool(library, pool):
    handle, address = ctypes.c_void_p(pool.handle), ctypes.c_void_p()
    allocated = library.stitchpool_alloc_raw(handle, 0, None, ctypes.c_uint64(4 * MIB), ctypes.byref(address))
    assert allocated == 0 and pool.holds(address.value)
    assert pool.stats().live_bytes == 4 * MIB
    with pytest.raises(stitchpool.InUse):
        pool.close()
    block = pool.alloc(512)
    assert library.stitchpool_free(handle, ctypes.c_void_p(block.address)) == 0
    with pytest.raises(stitchpool.UnknownPointer):
        block.free()
    pool.free(address.value)
    assert pool.stats().live_blocks == 0


def test_a_pool_that_c_destroyed_is_closed_for_python(library):
    pool = stitchpool.Pool("host")
    assert library.stitchpool_pool_destroy(ctypes.c_void_p(pool.handle)) == 0
    with pytest.raises(stitchpool.Closed):
        pool.stats()


def test_the_child_of_a_fork_never_touches_its_parents_pool(runs):
    said = runs(
        """
        import gc, os, stitchpool
        pool = stitchpool.Pool("host", capacity=64 << 20)
        block, spare = pool.alloc(1 << 20), pool.alloc(1 << 20)
        stream = pool.stream()
        child = os.fork()
        if child == 0:
            refused = []
            for use in (lambda: pool.alloc(512), block.free, pool.stats, stream.finish, stream.close, pool.trim):
                try:
                    use()
                except stitchpool.Closed as error:
                    refused.append(str(error))
            assert len(refused) == 6, refused
            assert all("forked from" in words for words in refused), refused
            del block, stream, pool
            gc.collect()
            with stitchpool.Pool("host", capacity=64 << 20) as own, own.alloc(1 << 20) as mine:
                memoryview(mine)[:5] = b"child"
            print("child fine", flush=True)
            raise SystemExit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert pool.stats().live_blocks == 2
        block.free(); spare.free(); stream.close(); pool.close()
        print("parent fine")
        """
    )
    assert "child fine" in said and "parent fine" in said


def test_a_fork_from_a_process_with_threads_leaves_the_child_its_own_pools(runs):
    """Threads that were inside a call at the fork are not in the child, which must not wait for them."""
    runs(
        """
        import os, threading, stitchpool
        pool = stitchpool.Pool("host", capacity=64 << 20)
        inside, go_on = threading.Event(), threading.Event()
        def relief(_):
            inside.set()
            go_on.wait(60)
        pool.on_shortage(relief)
        held = pool.alloc(60 << 20)
        def short():
            try:
                pool.alloc(60 << 20)
            except stitchpool.OutOfMemory:
                pass
        thread = threading.Thread(target=short)
        thread.start()
        inside.wait()
        child = os.fork()
        if child == 0:
            with stitchpool.Pool("host", capacity=64 << 20) as own:
                own.alloc(512).free()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        go_on.set()
        thread.join()
        """
    )


@pytest.mark.parametrize(
    "leaving", ["", "import os; os._exit(0)", "import gc; gc.disable()", "del pool", "raise SystemExit(0)"]
)
def test_f50_a_process_ends_well_whatever_is_live(runs, leaving):
    said = runs(
        f"""
        import atexit, stitchpool
        pool = stitchpool.Pool("host", capacity=64 << 20)
        pool.on_shortage(lambda _: pool.trim())
        block, stream = pool.alloc(1 << 20), pool.stream()
        view = memoryview(block)
        atexit.register(lambda: block and memoryview(block))
        module = stitchpool
        {leaving}
        """
    )
    assert said == ""


def test_two_interpreters_of_one_process_cannot_get_two_pools_by_accident():
    """The library is loaded once, by whichever path."""
    assert ctypes.CDLL(stitchpool.library())._handle == ctypes.CDLL(sys.modules["stitchpool._native"].__file__)._handle
